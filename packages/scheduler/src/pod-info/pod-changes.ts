import { isDeepStrictEqual } from 'node:util';
import type { Pod } from '@oarlock/api/types/core-v1';
import { resizedRequests } from '@oarlock/api/component-helpers/resized-requests';

/** Returns true for deeply equal values. Versions of an object from the in-process API server share unchanged parts, which is checked first. */
export const isEqual = (a: unknown, b: unknown): boolean => a === b || isDeepStrictEqual(a, b);

/** Returns true if two versions of a pod do not differ in a field that affects scheduling: spec, labels, resized requests, deletion. */
export const isSchedulingEquivalent = (a: Pod, b: Pod): boolean =>
  a.metadata?.deletionTimestamp === b.metadata?.deletionTimestamp &&
  isEqual(a.metadata?.labels, b.metadata?.labels) &&
  isEqual(a.spec, b.spec) &&
  (a.status === b.status || isEqual(resizedRequests(a), resizedRequests(b)));
