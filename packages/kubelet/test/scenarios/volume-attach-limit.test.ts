import { VolumeError, type VolumeDriver } from '@oarlock/spi/volume';
import { expect, it, vi } from 'vitest';
import { app, Bench, podOf, withTraits } from '../support/bench.ts';

it('rejects a pod with a volume that the node has no capacity to attach', async () => {
  const full: VolumeDriver = {
    supports: ({ csi }) => csi !== undefined,
    mount: ({ volume }) =>
      Promise.reject(volume.name === 'disk' ? new VolumeError('ResourceExhausted', 'no capacity') : new VolumeError('NotReady', 'not yet')),
    unmount: () => Promise.resolve(),
  };
  const bench = await new Bench({
    wrap: (driver) => withTraits(driver, { simulated: false, networkNamespaces: true }),
    volumes: new Map([['full', full]]),
  }).start();
  try {
    bench.create(
      podOf('web', {
        volumes: ['disk', 'late'].map((name) => ({ name, csi: { driver: 'full' } })),
        containers: [app({ volumeMounts: ['disk', 'late'].map((name) => ({ name, mountPath: `/${name}` })) })],
      }),
    );
    await vi.waitFor(() => expect(bench.pod('web')?.status?.phase).toBe('Failed'), { timeout: 120_000, interval: 5 });
    const message =
      'Node has reached its volume attachment limit, rejecting pod. ' +
      'unmounted volumes=[disk late], unattached volumes=[disk], failed to process volumes=[]: context deadline exceeded';
    expect(bench.pod('web')?.status).toMatchObject({ reason: 'VolumeAttachmentLimitExceeded', message });
    expect(bench.events.of('VolumeAttachmentLimitExceeded')).toEqual([`web Warning VolumeAttachmentLimitExceeded: ${message}`]);
  } finally {
    await bench.dispose();
  }
});
