import { join } from 'node:path';
import { afterEach, expect, it, vi } from 'vitest';
import { loopbackNetwork, missingForRunc, openRuntime, runcMode, type OciFixture } from '../support/fixture.ts';
import { containerConfig, podConfig } from '../support/pod.ts';

const port = 8099;
const patience = { timeout: 120_000, interval: 50 };
const namespaces = { network: 'POD', pid: 'CONTAINER', ipc: 'POD' } as const;
let fixture: OciFixture | undefined;
afterEach(() => fixture?.dispose());

it.skipIf(missingForRunc() !== undefined)('a forwarded connection ends when the program in the network of the pod closes it', async () => {
  fixture = await openRuntime(runcMode(), { network: loopbackNetwork() });
  const { driver, dataDir, image } = fixture;
  const pod = podConfig(join(dataDir, 'logs'), { security: { namespaces } });
  const sandbox = await driver.runPodSandbox(pod, '');
  const command = ['/bin/busybox', 'nc', '-ll', '-p', String(port), '-e', '/bin/echo', 'bye'];
  await driver.startContainer(await driver.createContainer(sandbox, containerConfig(image, command), pod));
  // the caller does not close its side
  const received = await vi.waitFor(async () => {
    let text = '';
    for await (const chunk of await driver.portForward(sandbox, port)) text += String(chunk);
    return text;
  }, patience);
  expect(received).toBe('bye\n');
});
