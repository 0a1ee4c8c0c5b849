import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '@oarlock/api/types/core-v1';
import { resizedRequests } from './resized-requests.ts';

/** Versions of an object share what has not changed when they come from the cache of this process; over a socket they do not. */
export const same = (a: unknown, b: unknown): boolean => a === b || isDeepStrictEqual(a, b);

/** Whether two versions of a pod are one to the scheduler: it goes by the spec, the labels, what is held meanwhile, and whether the pod is on its way out. */
export const meansTheSame = (a: Pod, b: Pod): boolean =>
  a.metadata?.deletionTimestamp === b.metadata?.deletionTimestamp &&
  same(a.metadata?.labels, b.metadata?.labels) &&
  same(a.spec, b.spec) &&
  (a.status === b.status || same(resizedRequests(a), resizedRequests(b)));
