import { authorizers } from './authorizer.ts';
import { namedFormats } from './internal/named-formats.ts';
import { addresses } from './internal/ip.ts';
import { jsonPatches } from './internal/json-patch.ts';
import { extendedLists } from './internal/extended-lists.ts';
import { lists } from './internal/lists.ts';
import { math } from './internal/math.ts';
import { operators } from './internal/operators.ts';
import { quantities } from './quantity.ts';
import { regex } from './regex.ts';
import { semver } from './internal/semver.ts';
import { sets } from './internal/sets.ts';
import { standard } from './internal/standard.ts';
import { stringReversal, strings } from './internal/strings.ts';
import { urls } from './internal/url.ts';
import type { Library } from './library.ts';

/**
 * The CEL libraries of the base environment of Kubernetes 1.36. It has neither cel-go's math library nor `cel.bind`, and version 2 of the strings
 * library, which has no `reverse`.
 */
export const kubernetesLibraries: readonly Library[] = [
  operators,
  standard,
  strings,
  regex,
  lists,
  extendedLists,
  sets,
  quantities,
  addresses,
  urls,
  namedFormats,
  semver,
  authorizers,
];

/** The libraries of mutating admission policies: also `jsonpatch.escapeKey`. */
export const mutationLibraries: readonly Library[] = [...kubernetesLibraries, jsonPatches];

/**
 * The libraries of stored expressions: all that any version has offered. Objects that were accepted before a library was removed keep working, and can be
 * updated as long as their expressions do not change.
 */
export const storedLibraries: readonly Library[] = [...mutationLibraries, math, stringReversal];
