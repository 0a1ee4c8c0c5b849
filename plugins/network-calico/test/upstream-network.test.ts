import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import { silentLogger } from '@oarlock/primitives/logger';
import { noTracer } from '@oarlock/kernel/tracing';
import type { Attachment, NodeNetwork } from '@oarlock/spi/network';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { calicoConfig, type CalicoConfig } from '../src/config/calico-config.ts';
import plugin from '../src/plugin.ts';
import { UpstreamNetwork } from '../src/upstream-network.ts';
import { traits } from './support/calico-fixture.ts';

interface Called {
  readonly type: string;
  readonly command: string;
  readonly container: string;
  readonly ifName: string;
  readonly netns: string;
  readonly args: string;
  readonly path: string;
  readonly stdin: Readonly<Record<string, unknown>>;
}

/**
 * Returns a CNI plugin that records its input and replies as Calico's plugins do: versions up to 1.0.0, a /32 address, no routes. It fails
 * if the file `refuse` exists.
 */
const fake = (directory: string) => `#!/bin/sh
given=$(cat)
type=$(basename "$0")
printf '{"type":"%s","command":"%s","container":"%s","ifName":"%s","netns":"%s","args":"%s","path":"%s","stdin":%s}\\n' \\
  "$type" "$CNI_COMMAND" "$CNI_CONTAINERID" "$CNI_IFNAME" "$CNI_NETNS" "$CNI_ARGS" "$CNI_PATH" "$given" >> '${directory}/calls'
case $CNI_COMMAND in
  VERSION) echo '{"cniVersion":"1.0.0","supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0"]}' ;;
  ADD)
    if [ -e '${directory}/refuse' ]; then echo '{"cniVersion":"1.0.0","code":11,"msg":"no connection to the datastore"}'; exit 1; fi
    echo '{"cniVersion":"1.0.0","interfaces":[{"name":"cali1"}],"ips":[{"address":"10.244.128.7/32"}]}' ;;
esac
`;
const node: NodeNetwork = {
  nodeName: 'n1',
  podCIDRs: [],
  clusterCIDRs: ['10.244.0.0/16'],
  serviceCIDRs: ['10.96.0.0/16'],
  nodeIPs: ['192.0.2.1'],
  mtu: 1480,
};
const attachment: Attachment = {
  containerId: 'c1',
  ifName: 'eth0',
  netns: '/run/netns/of-c1',
  pod: { namespace: 'default', name: 'web', uid: 'u1' },
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'TCP' }],
};

describe("Calico's own binaries", () => {
  let directory: string;
  let settings: CalicoConfig;
  let driver: UpstreamNetwork;
  const open = async () => {
    const context = { log: silentLogger, clock: systemClock, tracer: noTracer, dataDir: join(directory, 'data') };
    const opened = new UpstreamNetwork(settings, traits, context);
    await opened.start();
    return opened;
  };
  const install = async (...types: string[]) => {
    for (const type of types) {
      const path = join(directory, 'bin', type);
      await writeFile(path, fake(directory));
      await chmod(path, 0o755);
    }
  };
  const calls = async () =>
    (await readFile(join(directory, 'calls'), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Called)
      .filter(({ command }) => command !== 'VERSION');

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'calico-upstream-'));
    await mkdir(join(directory, 'bin'));
    settings = calicoConfig.parse({
      binDirs: [join(directory, 'bin')],
      confDir: join(directory, 'net.d'),
      upstream: { kubeconfig: '/etc/cni/net.d/calico-kubeconfig' },
    });
    await install('calico', 'calico-ipam', 'portmap', 'loopback', 'bandwidth');
    driver = await open();
  });
  afterEach(async () => {
    await driver.stop();
    await rm(directory, { recursive: true, force: true });
  });

  it('writes the conflist that runtimes read', async () => {
    await driver.setup(node);
    const conflist = JSON.parse(await readFile(join(directory, 'net.d', settings.confFile), 'utf8')) as object;
    expect(conflist).toEqual({
      cniVersion: '0.3.1',
      name: 'oarlock-calico',
      plugins: [
        {
          type: 'calico',
          log_level: 'warning',
          log_file_path: '/var/log/calico/cni/cni.log',
          datastore_type: 'kubernetes',
          nodename: 'n1',
          mtu: 1480,
          ipam: { type: 'calico-ipam' },
          policy: { type: 'k8s' },
          kubernetes: { kubeconfig: '/etc/cni/net.d/calico-kubeconfig' },
        },
        { type: 'portmap', snat: true, capabilities: { portMappings: true } },
        { type: 'bandwidth', capabilities: { bandwidth: true } },
      ],
    });
  });

  it('runs the binaries for runtimes without CNI, with the entries of the conflist', async () => {
    await driver.setup(node);
    expect((await driver.add(attachment)).ips).toEqual(['10.244.128.7']);
    await driver.check(attachment);
    await driver.del(attachment);
    const of = (wanted: string) => calls().then((all) => all.filter(({ command }) => command === wanted));
    const added = (await of('ADD')).filter(({ type }) => type !== 'loopback');
    expect(added.map(({ type }) => type)).toEqual(['calico', 'portmap']);
    expect(added[0]).toMatchObject({
      container: 'c1',
      ifName: 'eth0',
      netns: '/run/netns/of-c1',
      path: join(directory, 'bin'),
      args: expect.stringMatching(/K8S_POD_NAMESPACE=default;.*K8S_POD_NAME=web;/),
      stdin: { type: 'calico', name: 'oarlock-calico', cniVersion: '1.0.0', nodename: 'n1', ipam: { type: 'calico-ipam' } },
    });
    expect(added[1]?.stdin).toMatchObject({
      runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp' }] },
      prevResult: { ips: [{ address: '10.244.128.7/32' }] },
    });
    expect((await of('CHECK')).map(({ type }) => type)).toEqual(['calico', 'portmap']);
    expect((await of('DEL')).map(({ type }) => type)).toEqual(['portmap', 'calico']);
  });

  it("reverts a partly failed ADD and reports the binary's message", async () => {
    await driver.setup(node);
    await writeFile(join(directory, 'refuse'), '');
    await expect(driver.add(attachment)).rejects.toMatchObject({
      code: 'TryAgain',
      message: expect.stringContaining('no connection to the datastore'),
    });
    expect((await calls()).filter(({ command }) => command === 'DEL').map(({ type }) => type)).toContain('calico');
  });

  it('deletes attachments by their records after a restart of the kubelet', async () => {
    await driver.setup(node);
    await driver.add(attachment);
    await driver.stop();
    driver = await open();
    await driver.setup(node);
    await driver.gc([]);
    expect((await calls()).filter(({ command }) => command === 'DEL').map(({ type, container }) => `${type} ${container}`)).toContain(
      'calico c1',
    );
  });

  it('reports missing binaries', async () => {
    await rm(join(directory, 'bin', 'calico'));
    await expect(driver.setup(node)).rejects.toMatchObject({ code: 'PluginMissing', message: expect.stringContaining('calico') });
    const answer = await plugin.probe?.(settings);
    expect(answer).toMatchObject({ available: false, reason: expect.stringMatching(/CNI plugins not found: calico|root|Linux/) });
  });
});
