import type { VolumeDriver } from '@oarlock/spi/volume';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { afterEach, describe, expect, it } from 'vitest';
import { app, Bench, container, podOf, withTraits } from '../support/bench.ts';

/** A wall clock that can be set; the monotonic clock is not affected. */
class SettableClock extends FakeClock {
  offset = 0;
  override now(): number {
    return super.now() + this.offset;
  }
}
const day = 86_400_000;

describe('machine faults', () => {
  let bench: Bench;
  afterEach(() => bench.dispose());

  for (const [how, offset] of [
    ['forward', day],
    ['back', -day],
  ] as const)
    it(`a clock that is set ${how} restarts and delays nothing`, async () => {
      const clock = new SettableClock();
      bench = await new Bench({ clock }).start();
      bench.create(
        podOf('web', { containers: [app({ livenessProbe: { exec: { command: ['true'] }, periodSeconds: 5, initialDelaySeconds: 3 } })] }),
      );
      bench.create(podOf('crashing', { containers: [app({ command: ['exit', '1'] })] }));
      await bench.ready('web');
      await bench.until('crashing', (pod) => (container(pod)?.restartCount ?? 0) >= 3);
      const before = container(bench.pod('web'))?.containerID;
      const crashes = container(bench.pod('crashing'))?.restartCount ?? 0;
      clock.offset = offset;
      bench.create(
        podOf('late', { containers: [app({ readinessProbe: { exec: { command: ['true'] }, periodSeconds: 1, initialDelaySeconds: 2 } })] }),
      );
      await bench.until('late', (pod) => container(pod)?.ready === true, { within: 20_000 });
      // the longest back-off after so many crashes
      await bench.until('crashing', (pod) => (container(pod)?.restartCount ?? 0) > crashes, { within: 90_000 });
      await bench.clock.advance(60_000);
      expect(container(bench.pod('web'))).toMatchObject({ ready: true, restartCount: 0, containerID: before });
    });

  it('a volume driver that never answers delays only its own pod, which can be deleted', async () => {
    const hung: VolumeDriver = {
      supports: (volume) => volume.nfs !== undefined,
      mount: () => new Promise(() => undefined),
      unmount: () => Promise.resolve(),
    };
    bench = await new Bench({
      wrap: (driver) => withTraits(driver, { simulated: false }),
      config: { files: true },
      volumes: new Map([['nfs', hung]]),
    }).start();
    const volumes = [{ name: 'v', nfs: { server: 'nowhere', path: '/' } }];
    bench.create(podOf('hung', { volumes, containers: [app({ volumeMounts: [{ name: 'v', mountPath: '/v' }] })] }));
    bench.create(podOf('other'));
    const eventually = async (holds: () => boolean) => {
      await expect.poll(async () => (await bench.clock.advance(1000), holds()), { timeout: 120_000, interval: 10 }).toBe(true);
    };
    await eventually(() => bench.pod('other')?.status?.phase === 'Running');
    expect(bench.pod('hung')?.status?.phase).toBe('Pending');
    await bench.delete('hung', 1);
    await eventually(() => bench.pod('hung') === undefined);
    expect(bench.kubelet.agents.get('node-a')?.pods.size).toBe(1);
  });
});
