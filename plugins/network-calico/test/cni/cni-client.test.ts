import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { inNetworkNamespace, ip, isInNetworkNamespace } from '@oarlock/testing/network/network-namespace';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { clientText } from '../../src/cni/cni-client.ts';
import { openCalico, type CalicoFixture } from '../support/calico-fixture.ts';

interface Printed {
  readonly code?: number;
  readonly msg?: string;
  readonly cniVersion?: string;
  readonly supportedVersions?: readonly string[];
  readonly ips?: readonly { readonly address: string; readonly gateway: string; readonly interface: number }[];
  readonly interfaces?: readonly { readonly name: string; readonly sandbox?: string }[];
}
interface WrittenConflist {
  readonly cniVersion: string;
  readonly cniVersions?: readonly string[];
  readonly name: string;
  readonly plugins: readonly Readonly<Record<string, unknown>>[];
}

if (!isInNetworkNamespace) inNetworkNamespace(import.meta.url);
else {
  ip('link', 'set', 'lo', 'up');
  describe.each(['perl', 'node'] as const)('CNI executable in %s', (language) => {
    let fixture: CalicoFixture;
    let file: string;
    beforeEach(async () => {
      // without portmap and bandwidth: the installed ones support older CNI versions only
      fixture = await openCalico({ alone: true });
      await fixture.driver.setup(fixture.node);
      file = join(fixture.directory, 'bin', 'oarlock-calico');
      await writeFile(file, await clientText(language), { mode: 0o755 });
    });
    afterEach(() => fixture.dispose());

    const conflist = async () =>
      JSON.parse(await readFile(join(fixture.directory, 'net.d', fixture.settings.confFile), 'utf8')) as WrittenConflist;
    /** Calls the executable as libcni does, with the newest version of the list. */
    const call = async (
      CNI_COMMAND: string,
      { id = 'c1', netns = '', more = {} }: { readonly id?: string; readonly netns?: string; readonly more?: object } = {},
    ) => {
      const { cniVersion, cniVersions = [cniVersion], name, plugins } = await conflist();
      const input = JSON.stringify({ ...plugins[0], cniVersion: cniVersions.at(-1), name, ...more });
      const env = { CNI_COMMAND, CNI_CONTAINERID: id, CNI_IFNAME: 'eth0', CNI_NETNS: netns, CNI_PATH: '/nowhere', CNI_ARGS: '' };
      const child = spawn(file, { env, stdio: 'pipe' });
      child.stdin.end(input);
      const [stdout, stderr, [status]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, 'exit') as Promise<[number | null]>,
      ]);
      expect(stderr).toBe('');
      return { status, printed: (stdout === '' ? undefined : JSON.parse(stdout)) as Printed | undefined };
    };
    const addresses = (netns: string) =>
      execFileSync('nsenter', [`--net=${netns}`, 'ip', '-o', 'addr', 'show', 'dev', 'eth0'], { encoding: 'utf8' });

    it('is listed with all CNI versions that the conflist supports', async () => {
      expect(await conflist()).toMatchObject({ cniVersion: '1.0.0', cniVersions: ['1.0.0', '1.1.0'] });
      const { status, printed } = await call('VERSION');
      expect({ status, printed }).toEqual({
        status: 0,
        printed: { cniVersion: '1.1.0', supportedVersions: ['0.3.1', '0.4.0', '1.0.0', '1.1.0'] },
      });
    });

    it('handles ADD, CHECK and DEL, each of them idempotently', async () => {
      const { path: netns, remove } = await fixture.newNetns();
      const before = await fixture.countResources?.();
      const { status, printed } = await call('ADD', { netns });
      expect(status).toBe(0);
      expect(printed).toMatchObject({ cniVersion: '1.1.0', ips: [{ gateway: '169.254.1.1', interface: 1 }] });
      expect(printed?.interfaces?.[1]).toEqual({ name: 'eth0', sandbox: netns });
      expect(addresses(netns)).toContain(printed?.ips?.[0]?.address);
      const prevResult = printed;
      expect(await call('CHECK', { netns, more: { prevResult } })).toEqual({ status: 0, printed: undefined });
      execFileSync('nsenter', [`--net=${netns}`, 'ip', 'addr', 'flush', 'dev', 'eth0']);
      expect((await call('CHECK', { netns, more: { prevResult } })).printed).toMatchObject({ code: 101, cniVersion: expect.any(String) });
      for (let time = 0; time < 2; time++) expect((await call('DEL', { netns })).status).toBe(0);
      await remove();
      expect((await call('DEL')).status).toBe(0);
      expect(await fixture.countResources?.()).toEqual(before);
    });

    it('GC removes attachments that the runtime does not list and keeps those of the kubelet', async () => {
      const [listed, lost, own] = [await fixture.newNetns(), await fixture.newNetns(), await fixture.newNetns()];
      await call('ADD', { id: 'listed', netns: listed.path });
      await call('ADD', { id: 'lost', netns: lost.path });
      const attachment = {
        containerId: 'own',
        ifName: 'eth0',
        netns: own.path,
        pod: { namespace: 'd', name: 'own', uid: 'u' },
        portMappings: [],
      };
      await fixture.driver.add(attachment);
      const valid = [{ containerID: 'listed', ifname: 'eth0' }];
      expect(await call('GC', { more: { 'cni.dev/valid-attachments': valid } })).toEqual({ status: 0, printed: undefined });
      expect((await call('CHECK', { id: 'listed', netns: listed.path })).status).toBe(0);
      expect((await call('CHECK', { id: 'lost', netns: lost.path })).printed?.code).toBe(101);
      await fixture.driver.check(attachment);
      expect((await call('GC')).printed?.code).toBe(7);
    });

    it('STATUS reports whether pods can be connected, with the reason', async () => {
      expect(await call('STATUS')).toEqual({ status: 0, printed: undefined });
      expect((await call('ADD', { netns: 'not a path' })).printed).toMatchObject({ code: 7, msg: expect.stringContaining('not a path') });
      expect((await call('ADD', { id: '../x', netns: '/run/netns/x' })).printed?.code).toBe(7);
      expect((await call('DANCE')).printed?.code).toBe(4);
      const lost = { more: { socket: join(fixture.directory, 'nowhere.sock') } };
      expect((await call('STATUS', lost)).printed).toMatchObject({ code: 50, msg: expect.stringContaining('does not answer') });
      await rm(join(fixture.directory, 'data', 'cni.sock'));
      expect((await call('STATUS')).printed?.code).toBe(50);
      expect((await call('DEL')).printed?.code, 'the runtime tries again').toBe(11);
    });
  });
}
