import type { Arity, OptionalSlot, Plugin, Slot } from './plugin.ts';

/** Marks a need as optional: the consumer receives `undefined` if no plugin fills the slot. */
export const optional = <T>(slot: Slot<T, 'one'>): OptionalSlot<T> => ({ optional: slot });

const slotFactory =
  <A extends Arity>(arity: A) =>
  <T>(id: Slot<T>['id']): Slot<T, A> => {
    const self: Slot<T, A> = {
      id,
      arity,
      token: Symbol.for(`oarlock:slot:${id}`),
      plugin: (spec) => ({ needs: {}, ...spec, provides: self }) as unknown as Plugin,
    };
    return self;
  };

/**
 * Creates slots: `slot.one` for exactly one plugin, `slot.chain` for an ordered list, `slot.named` for a map by plugin name.
 *
 * ```ts
 * export const Storage = slot.one<StorageDriver>('storage/v1');
 * ```
 */
export const slot = { one: slotFactory('one'), chain: slotFactory('chain'), named: slotFactory('named') };

/** Returns the name of a slot id without its version: `storage/v1` -> `storage`. */
export function slotName(id: string): string {
  return id.slice(0, id.lastIndexOf('/'));
}
