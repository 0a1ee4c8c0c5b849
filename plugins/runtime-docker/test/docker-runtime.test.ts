import { runtimeContract, shellPrograms, type RuntimeFixture } from '@oarlock/spi/runtime/contract';
import { dockerMissing } from '../../../e2e/fixtures/docker.ts';
import { startRegistry } from '../../../e2e/fixtures/registry.ts';
import { buildImage, busyboxImage, busyboxLayer } from '../../../e2e/fixtures/test-image.ts';
import { cgroupParent, DockerBench } from './support/docker-bench.ts';

async function open(): Promise<RuntimeFixture> {
  const credentials = { username: 'someone', password: 'secret' };
  const [bench, registry] = await Promise.all([
    DockerBench.open(),
    startRegistry([buildImage('oarlock.test/pulled:1', await busyboxLayer(), { Cmd: ['/bin/sh'] })], credentials),
  ]);
  return {
    driver: await bench.driver(),
    image: busyboxImage,
    command: shellPrograms(),
    cgroupParent,
    pull: { image: `${registry.host}/pulled:1`, auth: credentials, missing: `${registry.host}/missing:1` },
    restartClient: () => bench.driver(),
    async dispose() {
      await registry.stop();
      await bench.close();
    },
  };
}

const missing = await dockerMissing();
if (missing !== undefined && process.env['CI'] === 'true') throw new Error(missing);
runtimeContract('runtime-docker over docker', open, missing === undefined ? {} : { unavailable: missing });
