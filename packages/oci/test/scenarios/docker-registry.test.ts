import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { dockerRegistryMissing, startDockerRegistry } from '../../../../e2e/fixtures/docker-registry.ts';
import { buildTestImages } from '../../../../e2e/fixtures/test-image.ts';
import { contractImage } from '../snapshots/snapshotter-contract.ts';
import { temporaryStore } from '../fixtures/temporary-store.ts';

const missing = dockerRegistryMissing();

describe.skipIf(missing !== undefined)(`docker-registry${missing === undefined ? '' : ` (${missing})`}`, () => {
  it('serves images with plain and compressed layers, by tag and digest', async () => {
    const registry = await startDockerRegistry();
    const store = await temporaryStore();
    try {
      const [busybox] = await buildTestImages();
      if (!busybox) throw new Error('there is no image');
      await registry.push(busybox, 'team/busybox:1');
      await registry.push(contractImage, 'contract:1');
      const pulled = await store.images.pull({ reference: `${registry.host}/team/busybox:1` });
      expect(pulled).toMatchObject({ id: busybox.config.digest, config: { cmd: ['/bin/sh'] }, notes: [] });
      const byDigest = await store.images.pull({ reference: `${registry.host}/contract@${contractImage.manifest.digest}` });
      expect(byDigest).toMatchObject({ id: contractImage.config.digest, repoTags: [] });
      const { path } = await store.snapshots.prepare({ key: 'a', image: pulled.id });
      expect(readdirSync(join(path ?? '', 'bin'))).toContain('busybox');
      await expect(store.images.pull({ reference: `${registry.host}/team/busybox:2` })).rejects.toMatchObject({ code: 'NotFound' });
      // blobs of layers are removed after the extraction
      expect(readdirSync(join(store.directory, 'blobs/sha256'))).toHaveLength(4);
    } finally {
      await store.remove();
      await registry.stop();
    }
  });
});
