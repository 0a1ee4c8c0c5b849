/** Undo steps that run in reverse order when a test file ends, whatever its result. */
export class Cleanup {
  readonly #steps: { readonly what: string; readonly undo: () => Promise<unknown> | unknown }[] = [];

  add(what: string, undo: () => Promise<unknown> | unknown): void {
    this.#steps.push({ what, undo });
  }

  /** Runs every step, also after a failure. @throws AggregateError with the errors of all failed steps */
  async run(): Promise<void> {
    const failures: Error[] = [];
    for (const { what, undo } of this.#steps.splice(0).reverse()) {
      try {
        await undo();
      } catch (cause) {
        failures.push(new Error(`${what}: ${String(cause)}`, { cause }));
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, failures.map(({ message }) => message).join('\n'));
  }
}
