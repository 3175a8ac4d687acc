// One question at a time: what is asked while an answer is on its way is asked once more after it.

export class Turns {
  constructor(ask) {
    this.ask = ask;
    this.turn = null; // the one that is on its way
  }

  // About something else one does not wait: the old answer is of no use any more.
  async take(about) {
    if (this.turn?.about === about) {
      this.turn.again = true;
      return;
    }
    const turn = { about, again: true };
    this.turn = turn;
    try {
      while (turn.again && this.turn === turn) {
        turn.again = false;
        await this.ask(about);
      }
    } finally {
      if (this.turn === turn) this.turn = null;
    }
  }
}
