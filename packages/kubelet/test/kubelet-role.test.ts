import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PluginHost } from '@oarlock/kernel/plugin-host';
import { openKeys } from '@oarlock/cluster/pki/keys';
import runtimeSimulated from '@oarlock/runtime-simulated/plugin';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster, Keys } from '@oarlock/spi/cluster';
import { Roles } from '@oarlock/spi/role';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { describe, expect, it } from 'vitest';
import kubelet from '../src/plugin.ts';
import { Bench, Events as Recorded, facts } from './support/bench.ts';

describe('KubeletRole', () => {
  it('is created, started, ready, healthy and stopped by the plugin host', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'oarlock-role-'));
    const clock = new FakeClock();
    const events = new Recorded();
    const api = memoryApi({ clock });
    const { keys } = await openKeys(join(dataDir, 'keys'), 'https://kubernetes.default.svc');
    const host = new PluginHost({ clock, dataDir });
    host
      .provide(Client, api.client())
      .provide(Informers, api.informers)
      .provide(Events, events)
      .provide(Cluster, facts)
      .provide(Keys, keys);
    host.add({ plugin: kubelet, config: { nodeName: 'node-a', port: 0 } }).add({ plugin: runtimeSimulated });
    await host.start();
    const [role] = host.get(Roles);
    await role?.waitUntilReady?.(new AbortController().signal);
    expect(role?.name).toBe('kubelet');
    for (const reason of ['NodeHasSufficientMemory', 'NodeHasNoDiskPressure', 'NodeHasSufficientPID'])
      expect(events.of(reason)).toEqual([`node-a Normal ${reason}: Node node-a status is now: ${reason}`]);
    expect(await role?.checkHealth()).toEqual({ healthy: true });
    const metrics = await host.plugins.find(({ name }) => name === 'kubelet')?.metrics.metrics();
    expect(metrics).toContain('kubelet_running_pods 0');
    await host.stop();
    await api.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  it('rejects an invalid config', () => {
    const faults = (config: unknown) =>
      new PluginHost()
        .add({ plugin: kubelet, config })
        .check()
        .filter(({ code }) => code === 'ConfigInvalid')
        .map(({ path, message }) => `${path}: ${message}`);
    expect(faults({ nodeName: 'Upper' })).toEqual([expect.stringContaining('a DNS name in lower case')]);
    expect(faults({ nodeName: 'a', prot: 1 })).toEqual([expect.stringContaining('prot')]);
    expect(faults({})).toHaveLength(1);
    expect(faults({ nodeName: 'a', imageCredentialProviderBinDir: '/bin' })).toEqual([
      expect.stringMatching(/imageCredentialProviderConfig\b.*required, because .* belong together/),
    ]);
  });

  it('rejects an invalid allowlist of preloaded images', () => {
    const policy = { imagePullCredentialsVerificationPolicy: 'NeverVerifyAllowlistedImages' };
    const fault = (config: object) =>
      new PluginHost()
        .add({ plugin: kubelet, config: { nodeName: 'a', ...config } })
        .check()
        .filter(({ code }) => code === 'ConfigInvalid')
        .map(({ message }) => message);
    for (const [pattern, why] of [
      [' r.example/app', 'leading/trailing spaces are not allowed'],
      ['', 'the supplied pattern is too short'],
      ['r.example/*/app', "only patterns ending with '/*' are allowed"],
      ['/*', 'at least registry hostname is required'],
      ['r.example/app:1', 'neither tag nor digest is accepted'],
      ['nginx', 'such as docker.io/library/nginx'],
    ] as const)
      expect(fault({ ...policy, preloadedImagesVerificationAllowlist: [pattern] })).toEqual([expect.stringContaining(why)]);
    expect(fault({ ...policy, preloadedImagesVerificationAllowlist: ['r.example/app', 'r.example:5000/team/*'] })).toEqual([]);
    expect(fault({ preloadedImagesVerificationAllowlist: ['r.example/app'] })).toEqual([
      expect.stringContaining('can only be set with imagePullCredentialsVerificationPolicy "NeverVerifyAllowlistedImages"'),
    ]);
  });

  it('does not start with an invalid credential provider config', async () => {
    const bench = new Bench({
      config: { imageCredentialProviderConfig: '/nonexistent/providers.yaml', imageCredentialProviderBinDir: '/bin' },
    });
    await expect(bench.kubelet.start(10_250)).rejects.toThrow(
      /^reading the credential provider config failed: ENOENT.*\/nonexistent\/providers\.yaml/,
    );
    await bench.dispose();
  });
});
