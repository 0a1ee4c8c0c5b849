import { authorizers } from './lib-authorizer.ts';
import { namedFormats } from './lib-format.ts';
import { addresses } from './lib-ip.ts';
import { jsonPatches } from './lib-json-patch.ts';
import { lists } from './lib-lists.ts';
import { math } from './lib-math.ts';
import { operators } from './lib-operators.ts';
import { quantities } from './lib-quantity.ts';
import { regex } from './lib-regex.ts';
import { semver } from './lib-semver.ts';
import { sets } from './lib-sets.ts';
import { standard } from './lib-standard.ts';
import { strings } from './lib-strings.ts';
import { urls } from './lib-url.ts';
import type { Library } from './library.ts';

/** Everything that expressions of Kubernetes 1.36 may call. */
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
