"""What was set, as the daemon reads it back."""

from stoker.daemon.settings import defaults_of, habits_of, poll_s_of


def test_a_home_whose_settings_have_no_units_is_read_as_it_was_meant() -> None:
    kept = {"grace": "90", "mem-margin": "512", "settle": "20", "poll": "2"}
    defaults = defaults_of(kept)
    assert (defaults.grace_ms, defaults.margin) == (90_000, (0, 512))
    assert (habits_of(kept).settle_ms, poll_s_of(kept)) == (20_000, 2.0)
