import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { inClusterConfig } from '@oarlock/client/in-cluster-config';
import { expect, it } from 'vitest';

it('reads the CA and the namespace of the service account, and leaves the token to its file', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'in-cluster-'));
  try {
    await expect(inClusterConfig(folder)).rejects.toThrow('ca.crt');
    await writeFile(join(folder, 'ca.crt'), 'PEM');
    await writeFile(join(folder, 'namespace'), 'tools\n');
    expect(await inClusterConfig(folder)).toEqual({
      options: { server: 'https://kubernetes.default.svc', ca: 'PEM', tokenFile: join(folder, 'token') },
      namespace: 'tools',
    });
  } finally {
    await rm(folder, { recursive: true });
  }
});
