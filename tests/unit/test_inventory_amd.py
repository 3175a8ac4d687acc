"""What amdsmi says, translated; the answers are written down after its documentation."""

from __future__ import annotations

from stoker.inventory.amd import Answers, bus_order, gpu_id, link_distance, seen_gpu
from stoker.ports import SeenGpu, SeenProcess

MI300 = Answers(
    uuid="a5ff74a1-0000-1000-80f7-1be0b4e02a0f",
    bdf="0000:c1:00.0",
    enumeration={
        "drm_render": 128,
        "drm_card": 0,
        "hsa_id": 4,
        "hip_id": 0,
        "hip_uuid": "GPU-f71be0b4e02a0f11",
    },
    asic={"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002"},
    vram={"vram_total": 196592, "vram_used": 1283},
    activity={"gfx_activity": 37, "umc_activity": 3, "mm_activity": "N/A"},
    power={
        "socket_power": 172,
        "current_socket_power": 172,
        "average_socket_power": "N/A",
        "power_limit": 750,
    },
    power_cap={"power_cap": 750_000_000, "max_power_cap": 750_000_000},
    temperatures=[None, 44],
    processes=[
        {"name": "python3", "pid": 4711, "mem": 0, "memory_usage": {"vram_mem": 1_048_577}},
        {"name": "N/A", "pid": 99, "mem": 0, "memory_usage": {"vram_mem": "N/A"}},
    ],
)


def test_a_gpu_is_read_whole() -> None:
    assert seen_gpu(MI300, now_ms=5) == SeenGpu(
        id="GPU-f71be0b4e02a0f11",
        memory_mib=196592,
        name="AMD Instinct MI300X",
        used_mib=1283,
        utilisation_percent=37,
        temperature_c=44,
        power_w=172.0,
        power_limit_w=750.0,
        processes=(SeenProcess(99, None), SeenProcess(4711, 2)),
        measured_at_ms=5,
        vendor="amd",
    )


def test_what_is_not_told_is_unknown() -> None:
    gpu = seen_gpu(
        Answers(
            uuid="some-uuid",
            bdf="0000:03:00.0",
            asic={"market_name": "N/A"},
            vram={"vram_total": "N/A", "vram_used": "N/A"},
            activity={"gfx_activity": "N/A"},
            temperatures=[0, None],
        ),
        now_ms=5,
    )
    assert gpu == SeenGpu(id="some-uuid", measured_at_ms=5, vendor="amd")


def test_an_older_version_that_tells_thousandths_of_a_degree_is_understood() -> None:
    assert seen_gpu(Answers("u", "0:0:0", temperatures=[51_000]), 0).temperature_c == 51


def test_a_gpu_without_a_name_for_rocr_keeps_its_uuid() -> None:
    assert gpu_id(Answers("some-uuid", "0000:03:00.0", {"hip_uuid": "N/A"})) == "some-uuid"


def test_gpus_are_sorted_by_their_place_on_the_bus() -> None:
    assert sorted(["0000:c1:00.0", "0001:03:00.0", "0000:1a:00.1"], key=bus_order) == [
        "0000:1a:00.1",
        "0000:c1:00.0",
        "0001:03:00.0",
    ]


def test_fabric_is_nearer_than_any_bus() -> None:
    fabric = link_distance({"hops": 2, "type": 2}, 30)
    near_bus = link_distance({"hops": 2, "type": 1}, 40)
    far_bus = link_distance({"hops": 3, "type": 1}, 72)
    assert fabric is not None and near_bus is not None and far_bus is not None
    assert fabric < near_bus < far_bus
    assert link_distance(None, None) is None
