import type { RequestCase } from '../request.ts';
import { applyCases } from './apply-cases.ts';
import { createCases } from './create-cases.ts';
import { defaultKinds } from './kinds.ts';
import { lifecycleCases } from './lifecycle-cases.ts';
import { printingCases, protocolCases } from './protocol-cases.ts';

export interface CorpusOptions {
  /** The order of the generated field cases follows from the seed. */
  readonly seed: number;
  /** Only cases whose id contains one of these texts; empty: all. */
  readonly only: readonly string[];
}

/**
 * Returns all cases: first those that exist once per kind, then the cases per field. The latter are shuffled by the seed, so that a
 * bounded run covers all kinds, and runs with other seeds other fields.
 */
export function corpus({ seed, only }: CorpusOptions): readonly RequestCase[] {
  const created = defaultKinds.flatMap(createCases);
  const isField = ({ id }: RequestCase) => id.split('/').length > 3;
  // kinds of one version share a discovery document
  const discovered = new Map(defaultKinds.flatMap(printingCases).map((each) => [JSON.stringify(each.steps), each]));
  const all = [
    ...protocolCases(),
    ...discovered.values(),
    ...created.filter((each) => !isField(each)),
    ...defaultKinds.flatMap(applyCases),
    ...defaultKinds.flatMap(lifecycleCases),
    ...shuffled(created.filter(isField), seed),
  ];
  return only.length === 0 ? all : all.filter(({ id }) => only.some((part) => id.includes(part)));
}

/** Returns the elements in an order that follows from the seed (Fisher-Yates with mulberry32). */
export function shuffled<T>(elements: readonly T[], seed: number): readonly T[] {
  const result = [...elements];
  let state = seed >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  for (let at = result.length - 1; at > 0; at -= 1) {
    const other = Math.floor(random() * (at + 1));
    [result[at], result[other]] = [result[other] as T, result[at] as T];
  }
  return result;
}
