import type { NetworkDriver } from '@oarlock/spi/network';
import { afterEach, describe, expect, it } from 'vitest';
import { Bench, podOf, withTraits } from '../support/bench.ts';

describe('sandbox that the container runtime attaches to the network', () => {
  let bench: Bench;
  afterEach(() => bench.dispose());

  /** Starts a kubelet whose network plugin records the sandboxes that it adopts, with the number of containers that exist. */
  async function start(adopt: () => Promise<void>) {
    const adopted: (readonly [sandbox: string, containers: number])[] = [];
    const network = {
      traits: { namespace: 'pod', podCIDR: '10.0.0.0/8', serviceCIDR: '10.96.0.0/16' },
      setup: async () => {},
      gc: async () => {},
      status: async () => ({ ready: true, message: '' }),
      adopt: async ({ containerId }: { readonly containerId: string }) => {
        adopted.push([containerId, (await bench.runtime.listContainers()).length]);
        await adopt();
      },
    } as unknown as NetworkDriver;
    bench = new Bench({
      network,
      wrap: (driver) => withTraits(driver, { simulated: false, invokesCni: true, networkNamespaces: true }),
      config: { files: false, port: 0, podCIDR: '10.244.7.0/24' },
    });
    await bench.start();
    return adopted;
  }

  it('is adopted by the network plugin before its containers exist', async () => {
    const adopted = await start(async () => {});
    bench.create(podOf('web'));
    await bench.ready('web');
    const [sandbox] = await bench.runtime.listPodSandbox();
    expect(adopted).toEqual([[sandbox?.id, 0]]);
  });

  it('is not adopted for a pod on the host network', async () => {
    const adopted = await start(async () => {});
    bench.create(podOf('web', { hostNetwork: true }));
    await bench.ready('web');
    expect(adopted).toEqual([]);
  });

  it('is removed, without containers, if the network plugin rejects it, and created again', async () => {
    const outcomes = [() => Promise.reject(new Error('no CNI result')), async () => {}];
    const adopted = await start(() => (outcomes.shift() ?? (async () => {}))());
    bench.create(podOf('web'));
    await bench.ready('web');
    const sandboxes = await bench.runtime.listPodSandbox();
    expect(adopted.map(([, containers]) => containers)).toEqual([0, 0]);
    expect(sandboxes.map(({ id }) => id)).toEqual([adopted[1]?.[0]]);
    expect(bench.events.of('FailedCreatePodSandBox').join()).toContain('no CNI result');
  });
});
