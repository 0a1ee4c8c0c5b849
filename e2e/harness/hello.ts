import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { busyboxImage } from '../fixtures/test-image.ts';
import type { RuntimeName } from './composition.ts';
import { root } from './oarlock.ts';

interface Manifest {
  readonly kind: string;
  readonly spec: { readonly template?: { readonly spec: { readonly containers: { image: string }[] } } };
}

/** Returns true if containers of a runtime have the file system of an image. */
export const runsImages = (runtime: RuntimeName): boolean => ['containerd', 'docker', 'oci'].includes(runtime);

/** Returns the example's manifest for a runtime. Runtimes that pull images get the test image. */
export async function hello(runtime: RuntimeName): Promise<readonly object[]> {
  const file = runtime === 'process' ? 'hello/hello.yaml' : 'hello-image/hello.yaml';
  const objects = parseAllDocuments(await readFile(join(root, 'examples', file), 'utf8')).map((document) => document.toJS() as Manifest);
  for (const { spec } of objects)
    for (const container of spec.template?.spec.containers ?? []) if (runtime !== 'process') container.image = busyboxImage;
  return objects;
}
