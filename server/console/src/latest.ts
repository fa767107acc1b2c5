// One call at a time, and after it the latest that was wanted meanwhile.

/** latest makes of f, which asks the server, what may be called at any time: calls that are no longer wanted are left
 * out. */
export function latest(f: () => Promise<void>, fail: (err: unknown) => void): () => void {
  let running = false;
  let again = false;
  const run = (): void => {
    again = running;
    if (running) return;
    running = true;
    void f()
      .catch(fail)
      .finally(() => {
        running = false;
        if (again) run();
      });
  };
  return run;
}
