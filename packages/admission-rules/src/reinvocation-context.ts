import { jsonEqual } from '@oarlock/api/json/json';
import type { KubeObject } from '@oarlock/api/object';
import type { MutationPass } from '@oarlock/spi/admission';

/**
 * Tracks which webhooks or policies must be called again: those with reinvocationPolicy IfNeeded, if the object changed after their first
 * call.
 */
export class ReinvocationContext {
  #called = new Set<string>();
  readonly #due = new Set<string>();
  #left: KubeObject | undefined;

  /** Returns the context of one plugin for the current request; creates the context in the first pass. */
  static of(round: MutationPass | undefined, plugin: object): ReinvocationContext {
    const known = round?.pluginState.get(plugin);
    if (known instanceof ReinvocationContext) return known;
    const context = new ReinvocationContext();
    round?.pluginState.set(plugin, context);
    return context;
  }

  /**
   * Starts the second pass over the plugins. If another plugin changed the object since the first pass, everything called before is due
   * again.
   */
  begin(object: KubeObject): void {
    if (!jsonEqual(this.#left, object)) this.changed();
  }
  isDue(id: string): boolean {
    return this.#due.has(id);
  }
  called(id: string): void {
    this.#called.add(id);
  }
  changed(): void {
    for (const id of this.#called) this.#due.add(id);
    this.#called = new Set();
  }
  end(object: KubeObject): void {
    this.#left = object;
  }
}
