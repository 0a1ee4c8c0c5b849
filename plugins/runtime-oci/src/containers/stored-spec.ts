import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RuntimeSpec } from '../spec/runtime-spec.ts';

/** Returns the configuration with which a container was started. */
export function readSpec(directory: string): RuntimeSpec {
  return JSON.parse(readFileSync(join(directory, 'config.json'), 'utf8')) as RuntimeSpec;
}
