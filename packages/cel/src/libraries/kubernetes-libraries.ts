import { authorizers } from './authorizer.ts';
import { namedFormats } from './internal/named-formats.ts';
import { addresses } from './internal/ip.ts';
import { jsonPatches } from './internal/json-patch.ts';
import { lists } from './internal/lists.ts';
import { math } from './internal/math.ts';
import { operators } from './internal/operators.ts';
import { quantities } from './quantity.ts';
import { regex } from './regex.ts';
import { semver } from './internal/semver.ts';
import { sets } from './internal/sets.ts';
import { standard } from './internal/standard.ts';
import { strings } from './internal/strings.ts';
import { urls } from './internal/url.ts';
import type { Library } from './library.ts';

/** All CEL libraries of Kubernetes 1.36. */
export const kubernetesLibraries: readonly Library[] = [
  operators,
  standard,
  strings,
  regex,
  lists,
  sets,
  math,
  quantities,
  addresses,
  urls,
  namedFormats,
  semver,
  authorizers,
  jsonPatches,
];
