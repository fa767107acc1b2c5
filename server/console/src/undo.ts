// What can be undone: changes, of which those of a drag are one.

const mostUndo = 200;
const mostKept = 64e6; // characters of all that is kept

/** Undo keeps what was before each change. */
export abstract class Undo {
  /** Counts changes. */
  revision = 0;
  /** Called when anything has changed; moving says that the user still drags. */
  changed: (moving: boolean) => void = () => {};
  private past: string[] = [];
  private future: string[] = [];
  private before: string | null = null;

  protected abstract snapshot(): string;
  protected abstract restore(s: string): void;

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }

  /** forget is for what was loaded: there is nothing to undo. */
  protected forget(): void {
    this.past = [];
    this.future = [];
    this.revision++;
    this.changed(false);
  }

  /** begin is called before a drag, whose steps are one to undo. */
  begin(): void {
    this.before ??= this.snapshot();
  }

  /** move is a step of a drag. */
  move(f: () => void): void {
    f();
    this.revision++;
    this.changed(true);
  }

  /** commit ends a drag. */
  commit(): void {
    if (this.before !== null && this.before !== this.snapshot()) {
      this.past.push(this.before);
      while (this.past.length > mostUndo || (this.past.length > 1 && this.past.length * this.before.length > mostKept))
        this.past.shift();
      this.future = [];
    }
    this.before = null;
    this.changed(false);
  }

  /** edit is a change at once. */
  edit(f: () => void): void {
    this.begin();
    f();
    this.revision++;
    this.commit();
  }

  undo(): void {
    this.step(this.past, this.future);
  }

  redo(): void {
    this.step(this.future, this.past);
  }

  private step(from: string[], to: string[]): void {
    const s = from.pop();
    if (s === undefined) return;
    to.push(this.snapshot());
    this.restore(s);
    this.revision++;
    this.changed(false);
  }
}
