import { afterEach, describe, expect, it } from 'vitest';
import { supportsImageVolumes } from '../../src/volumes/image-volume.ts';
import { app, Bench, container, podOf, withTraits } from '../support/bench.ts';

describe('image volumes', () => {
  let bench: Bench | undefined;
  afterEach(() => bench?.dispose());
  const start = async (name: string) => {
    bench = await new Bench({
      config: { files: true },
      wrap: (driver) => {
        const wrapped = withTraits(driver, { simulated: false });
        return new Proxy(wrapped, {
          get: (target, key) =>
            key === 'version'
              ? () => Promise.resolve({ name, version: '1.6.20', apiVersion: 'v1' })
              : (Reflect.get(target, key) as unknown),
        });
      },
      runtime: { missingImages: ['registry.test/none:1'] },
    }).start();
    return bench;
  };
  const withImage = (reference: string) =>
    podOf('web', {
      volumes: [{ name: 'v', image: { reference, pullPolicy: 'Always' } }],
      containers: [app({ volumeMounts: [{ name: 'v', mountPath: '/v', subPath: 'dir' }] })],
    });
  const eventually = (holds: () => boolean) =>
    expect.poll(async () => (await bench?.clock.advance(500), holds()), { timeout: 120_000, interval: 10 }).toBe(true);
  const waiting = () => container(bench?.pod('web'))?.state?.waiting;

  it.each(['simulated', 'oci'])('are pulled and mounted by the runtime %s', async (name) => {
    const { runtime } = await start(name);
    bench?.create(withImage('registry.test/data:1'));
    await eventually(() => bench?.pod('web')?.status?.phase === 'Running');
    expect(bench?.events.of('Pulling')).toContainEqual(expect.stringContaining('"registry.test/data:1"'));
    const [one] = await runtime.listContainers();
    const { mounts } = await runtime.containerStatus(one?.id ?? '');
    expect(mounts).toContainEqual({
      containerPath: '/v',
      hostPath: '',
      readonly: true,
      image: expect.stringMatching(/^sha256:/),
      imageSubPath: 'dir',
    });
  });

  it('report pull errors like container images', async () => {
    await start('simulated');
    bench?.create(withImage('registry.test/none:1'));
    await eventually(() => /^(ErrImagePull|ImagePullBackOff)$/.test(waiting()?.reason ?? ''));
  });

  it('are rejected if the runtime does not mount images', async () => {
    await start('containerd');
    bench?.create(withImage('registry.test/data:1'));
    await eventually(() => waiting()?.reason === 'CreateContainerConfigError');
    expect(waiting()?.message).toBe('volume "v" is an image, and containerd 1.6.20 does not mount images');
    expect(supportsImageVolumes({ name: 'containerd', version: 'v2.1.0' })).toBe(true);
    expect(supportsImageVolumes({ name: 'cri-o', version: '1.30.4' })).toBe(false);
  });
});
