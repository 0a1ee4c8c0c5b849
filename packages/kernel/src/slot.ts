import type { z } from 'zod';
import type { Needs, Plugin, PluginSpec } from './plugin.ts';

declare const filler: unique symbol;

/** How many plugins may fill a slot, and therefore what a consumer receives. */
export type Arity = 'one' | 'chain' | 'named';

/** A typed hole in the kernel that plugins fill. */
export interface Slot<T, A extends Arity = Arity> {
  /** Name and version of the interface. A breaking change of the interface is a new slot: `storage/v2`. */
  readonly id: `${string}/v${number}`;
  readonly arity: A;
  /** The container's token. `Symbol.for`, so that two copies of this package agree. */
  readonly token: symbol;
  /** Carries `T` to the type checker; never present at run time. */
  readonly [filler]?: T;
  /** Declares a plugin for this slot. */
  plugin<C extends z.ZodType, const N extends Needs = {}>(spec: PluginSpec<T, C, N>): Plugin;
}

/** A need that may stay unfilled: the consumer then receives `undefined`. Only slots of arity one need it; the others may be empty anyway. */
export interface OptionalSlot<T> {
  readonly optional: Slot<T, 'one'>;
}
export const optional = <T>(slot: Slot<T, 'one'>): OptionalSlot<T> => ({ optional: slot });

/** What a consumer of a slot gets: one value, an ordered list, or a map by name. */
export type Filled<S> =
  S extends OptionalSlot<infer T>
    ? T | undefined
    : S extends Slot<infer T, infer A>
      ? A extends 'one'
        ? T
        : A extends 'chain'
          ? readonly T[]
          : ReadonlyMap<string, T>
      : never;

const make =
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

export const slot = { one: make('one'), chain: make('chain'), named: make('named') };

/** `storage/v1` -> `storage`. */
export function slotName(id: string): string {
  return id.slice(0, id.lastIndexOf('/'));
}
