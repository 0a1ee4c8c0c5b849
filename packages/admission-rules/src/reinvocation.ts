import { jsonEqual } from '@oarlock/api/json';
import type { KubeObject } from '@oarlock/api/object';
import type { MutationRound } from '@oarlock/spi/admission';

/** Which webhooks or policies have a second turn: those that want one, when the object has changed since their first. */
export class Reinvocation {
  #called = new Set<string>();
  readonly #due = new Set<string>();
  #left: KubeObject | undefined;

  /** That of a request, for the rules of one plugin. */
  static of(round: MutationRound | undefined, plugin: object): Reinvocation {
    const known = round?.memory.get(plugin);
    if (known instanceof Reinvocation) return known;
    const made = new Reinvocation();
    round?.memory.set(plugin, made);
    return made;
  }

  /** The second round begins: others may have changed the object in between. */
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
