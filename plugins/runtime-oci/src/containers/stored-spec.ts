import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RuntimeSpec } from '../spec/runtime-spec.ts';

/** Name of the file with a container's configuration, which OCI runtimes prescribe. */
export const specFile = 'config.json';

/** Returns the configuration with which a container was started. */
export function readSpec(directory: string): RuntimeSpec {
  return JSON.parse(readFileSync(join(directory, specFile), 'utf8')) as RuntimeSpec;
}
