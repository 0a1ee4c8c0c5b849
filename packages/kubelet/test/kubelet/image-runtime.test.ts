import type { RuntimeDriver } from '@oarlock/spi/runtime';
import { describe, expect, it } from 'vitest';
import type { PodRuntime } from '../../src/pod/node-context.ts';
import { runtimeForImages, unavailableImages } from '../../src/kubelet/image-runtime.ts';

const { signal } = new AbortController();
const runtime = (name: string, images: boolean, available?: boolean) => {
  const imageSupport = () => Promise.resolve({ available: available === true, detail: `${name} cannot` });
  const driver = { traits: { images }, ...(available !== undefined && { imageSupport }) } as unknown as RuntimeDriver;
  return { pleg: { driver, handler: name, simulated: false } } as unknown as PodRuntime;
};
const pod = (...images: string[]) => ({ spec: { containers: images.map((image, index) => ({ name: `c${index}`, image })) } });
const processes = runtime('processes', false);
const choose = async (runtimes: readonly PodRuntime[], image: ReturnType<typeof pod>) =>
  (await runtimeForImages(image, { runtimes, defaultRuntime: runtimes[0] ?? processes, signal })).pleg.handler;

describe('the runtime of a pod without a RuntimeClass', () => {
  it('is the default runtime if that runs images, or if every container names the image host', async () => {
    expect(await choose([runtime('default', true), runtime('other', true)], pod('busybox'))).toBe('default');
    expect(await choose([processes, runtime('oci', true, true)], pod('host', 'docker.io/library/host:latest'))).toBe('processes');
  });

  it('is the first runtime that runs images on this machine if a container or an init container names one', async () => {
    const runtimes = [processes, runtime('absent', true, false), runtime('oci', true, true), runtime('later', true)];
    expect(await choose(runtimes, pod('busybox'))).toBe('oci');
    expect(await choose(runtimes, pod('host', 'busybox'))).toBe('oci');
    const init = { spec: { initContainers: [{ name: 'init', image: 'busybox' }], containers: [{ name: 'main', image: 'host' }] } };
    expect(await choose(runtimes, init)).toBe('oci');
    expect(await choose([processes, runtime('containerd', true)], pod('busybox'))).toBe('containerd');
  });

  it('is the default runtime if none runs images, which the reasons explain', async () => {
    const runtimes = [processes, runtime('oci', true, false)];
    expect(await choose(runtimes, pod('busybox'))).toBe('processes');
    const drivers = new Map(runtimes.map(({ pleg }) => [pleg.handler, pleg.driver]));
    expect(await unavailableImages(drivers, signal)).toBe('oci is not available on this machine: oci cannot');
    expect(await unavailableImages(new Map([['processes', processes.pleg.driver]]), signal)).toBe('');
  });

  it('stays when an ephemeral container or an update brings an image, which the reasons explain', async () => {
    const drivers = new Map([processes, runtime('oci', true, true)].map(({ pleg }) => [pleg.handler, pleg.driver]));
    expect(await unavailableImages(drivers, signal)).toMatch(
      /^oci runs images, but all containers of a pod run with the runtime that its first/,
    );
  });
});
