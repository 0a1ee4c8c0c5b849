import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '@oarlock/primitives/clock';
import type { Attachment } from '@oarlock/spi/network';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CniChain } from '../../src/cni/chain.ts';
import { CniPlugins } from '../../src/cni/plugins.ts';
import { CniError, parseResult, toNetworkError, toNetworkResult, type NetworkList } from '../../src/cni/protocol.ts';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { KeyedExecutor } from '../../src/cni/keyed-executor.ts';

let directory = '';
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cni-'));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

/** Installs a plugin that records each call and prints the result of `body`, an expression in terms of `call` (environment and config). */
async function fake(type: string, body: string): Promise<void> {
  const path = join(directory, type);
  await writeFile(
    path,
    `#!${process.execPath}
const { readFileSync, appendFileSync } = require('node:fs');
const { CNI_COMMAND, CNI_CONTAINERID, CNI_IFNAME, CNI_NETNS, CNI_ARGS, CNI_PATH } = process.env;
const call = { type: ${JSON.stringify(type)}, CNI_COMMAND, CNI_CONTAINERID, CNI_IFNAME, CNI_NETNS, CNI_ARGS, CNI_PATH, config: JSON.parse(readFileSync(0, 'utf8')) };
appendFileSync(${JSON.stringify(join(directory, 'calls'))}, JSON.stringify(call) + '\\n');
if (CNI_COMMAND === 'VERSION') console.log(JSON.stringify({ cniVersion: '1.1.0', supportedVersions: ['0.4.0', '1.0.0', '1.1.0'] }));
else { ${body} }
`,
  );
  await chmod(path, 0o700);
}
const calls = async () =>
  (await readFile(join(directory, 'calls'), 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown> & { config: Record<string, unknown> });
const attachment: Attachment = {
  containerId: 'c1',
  ifName: 'eth0',
  netns: '/proc/self/ns/net',
  pod: { namespace: 'shop', name: 'web', uid: 'u1' },
  portMappings: [
    { protocol: 'TCP', containerPort: 80, hostPort: 8080, hostIp: '192.0.2.7' },
    { protocol: 'UDP', containerPort: 53, hostPort: 0 },
  ],
};
const list: NetworkList = {
  cniVersion: '1.1.0',
  name: 'net',
  plugins: [
    { type: 'first' },
    { type: 'second', capabilities: { portMappings: true } },
    { type: 'third', capabilities: { bandwidth: true } },
  ],
};
const result = { cniVersion: '1.1.0', ips: [{ address: '10.1.0.5/24', gateway: '10.1.0.1' }], interfaces: [], extra: 'kept' };

describe('CNI chain', () => {
  const chain = () => new CniChain(new CniPlugins(systemClock, [directory], 120_000));
  beforeEach(async () => {
    for (const type of ['first', 'second', 'third', 'loopback'])
      await fake(
        type,
        `if (CNI_COMMAND === 'ADD') console.log(JSON.stringify({ ...${JSON.stringify(result)}, by: [...(call.config.prevResult?.by ?? []), call.type] }));`,
      );
  });

  it('runs ADD in order, each plugin with the previous result, and passes capability arguments', async () => {
    expect(await chain().add(list, attachment)).toMatchObject({ extra: 'kept', by: ['first', 'second'] });
    const created = (await calls()).filter(({ type }) => type !== 'loopback');
    expect(created.map(({ type }) => type)).toEqual(['first', 'second']);
    expect(created[0]).toMatchObject({
      CNI_COMMAND: 'ADD',
      CNI_CONTAINERID: 'c1',
      CNI_IFNAME: 'eth0',
      CNI_NETNS: '/proc/self/ns/net',
      CNI_PATH: directory,
      CNI_ARGS: 'IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u1',
      config: { cniVersion: '1.1.0', name: 'net' },
    });
    expect(created[0]?.config).not.toHaveProperty('prevResult');
    expect(created[1]?.config).toMatchObject({
      prevResult: { extra: 'kept', by: ['first'] },
      runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: 'tcp', hostIP: '192.0.2.7' }] },
    });
  });
  it('runs the loopback plugin unless the interface is up', async () => {
    const commands = async () => (await calls()).map(({ type, CNI_IFNAME }) => `${type} ${CNI_IFNAME}`);
    await chain().add(list, { ...attachment, loopbackUp: true });
    expect(await commands()).not.toContain('loopback lo');
    await chain().add(list, attachment);
    expect(await commands()).toContain('loopback lo');
  });
  it('runs DEL in reverse order, also after a plugin failed', async () => {
    await fake('second', 'console.log(JSON.stringify({ cniVersion: "1.1.0", code: 5, msg: "disk" })); process.exit(1);');
    await expect(chain().del(list, { attachment, of: 'anyone', result })).rejects.toMatchObject({ cniCode: 5, plugin: 'second' });
    expect((await calls()).map(({ type }) => type)).toEqual(['third', 'second', 'first']);
    expect((await calls())[0]?.config['prevResult']).toMatchObject({ extra: 'kept' });
  });
  it('treats an unknown container as deleted', async () => {
    await fake('first', 'console.log(JSON.stringify({ cniVersion: "1.1.0", code: 3, msg: "what container" })); process.exit(1);');
    await chain().del(list, { attachment, of: 'ours', result });
  });
  it('runs STATUS and GC if the plugins support them', async () => {
    await chain().status(list);
    await chain().gc(list, [attachment]);
    const created = await calls();
    expect(created.map(({ CNI_COMMAND, type }) => `${CNI_COMMAND} ${type}`)).toEqual([
      'STATUS first',
      'STATUS second',
      'STATUS third',
      'GC first',
      'GC second',
      'GC third',
    ]);
    expect(created.at(-1)?.config['cni.dev/valid-attachments']).toEqual([{ containerID: 'c1', ifname: 'eth0' }]);
    await fake('first', 'console.log(JSON.stringify({ cniVersion: "1.1.0", code: 50, msg: "no" })); process.exit(1);');
    await expect(chain().status(list)).rejects.toMatchObject({ cniCode: 50 });
    await expect(chain().gc(list, [])).rejects.toMatchObject({ command: 'GC' });
  });
});

describe('CNI plugins', () => {
  it('select the best common version, and one for conflists', async () => {
    await fake('a', '');
    await fake('b', '');
    const plugins = new CniPlugins(systemClock, [directory], 120_000);
    expect(await plugins.versions(['a', 'b'])).toEqual({ own: '1.1.0', conflist: '1.0.0' });
  });
  it('report distinct errors if missing, printing nonsense, crashing or hanging', async () => {
    const plugins = new CniPlugins(systemClock, ['/nowhere', directory], 120_000);
    await expect(plugins.run('none', 'ADD', { stdin: {} })).rejects.toMatchObject({ code: 'PluginMissing' });
    await fake('crash', 'console.error("oh"); process.exit(2);');
    await expect(plugins.run('crash', 'ADD', { stdin: {} })).rejects.toMatchObject({
      cniCode: 999,
      message: expect.stringContaining('oh'),
    });
    await fake('hang', 'require("node:child_process").spawn("sleep", ["1000"], { stdio: "inherit" }); setInterval(() => {}, 1000);');
    await expect(new CniPlugins(systemClock, [directory], 500).run('hang', 'ADD', { stdin: {} })).rejects.toMatchObject({
      cniCode: 11,
      message: expect.stringContaining('500 ms'),
    });
    await fake('chatty', 'process.stdout.write("x".repeat(3e6));');
    await expect(new CniPlugins(systemClock, [directory], 120_000).run('chatty', 'ADD', { stdin: {} })).rejects.toMatchObject({
      message: expect.stringContaining('1 MiB'),
    });
  });
  it('have their error codes translated', () => {
    const codeOf = (code: number, message = 'm') => toNetworkError(new CniError('p', { command: 'ADD', cniCode: code, message })).code;
    expect([1, 2, 4, 5, 6, 7, 11, 50, 100, 999].map((code) => codeOf(code))).toEqual([
      'InvalidConfig',
      'InvalidConfig',
      'InvalidConfig',
      'PluginFailed',
      'InvalidConfig',
      'InvalidConfig',
      'TryAgain',
      'TryAgain',
      'PluginFailed',
      'PluginFailed',
    ]);
    expect(codeOf(999, 'no IP addresses available in range set: 10.1.0.1-10.1.0.6')).toBe('Exhausted');
    expect(toNetworkError(new CniError('p', { command: 'CHECK', cniCode: 999, message: 'm' })).code).toBe('Broken');
  });
});

it("run without Oarlock's environment and report their own exit code", async () => {
  const outcome = await runProgram(systemClock, '/usr/bin/env', [], { env: { ONLY: '1' }, timeoutMs: 10_000 });
  expect(
    outcome.stdout
      .trim()
      .split('\n')
      .map((line) => line.split('=')[0])
      .sort(),
  ).toEqual(['ONLY', 'PATH']);
  expect(await runProgram(systemClock, '/bin/sh', ['-c', 'cat >&2; exit 3'], { stdin: 'in', timeoutMs: 10_000 })).toEqual({
    stdout: '',
    stderr: 'in',
    exitCode: 3,
  });
  await expect(runProgram(systemClock, '/no/such', [], { timeoutMs: 100 })).rejects.toMatchObject({ code: 'ENOENT' });
});

describe('keyed executor', () => {
  it('runs items of one key in order, a limited number at once, and exclusive work alone', async () => {
    const gate = new KeyedExecutor(2);
    const log: string[] = [];
    let running = 0;
    let most = 0;
    const piece = (name: string) => async () => {
      most = Math.max(most, ++running);
      log.push(`+${name}`);
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      log.push(`-${name}`);
      running--;
    };
    const first = [gate.run('k', piece('k1')), gate.run('k', piece('k2')), gate.run('a', piece('a')), gate.run('b', piece('b'))];
    const alone = gate.exclusive(async () => {
      expect(running).toBe(0);
      await piece('alone')();
      expect(running).toBe(0);
    });
    const late = gate.run('late', piece('late'));
    await Promise.all([...first, alone, late]);
    expect(most).toBe(2);
    expect(log.indexOf('-k1')).toBeLessThan(log.indexOf('+k2'));
    expect(log.indexOf('-alone')).toBeLessThan(log.indexOf('+late'));
    expect(gate.isBusy('k')).toBe(false);
    await expect(
      gate.run('k', async () => {
        throw new Error('no');
      }),
    ).rejects.toThrow('no');
    await gate.run('k', piece('again'));
  });
});

describe('parseResult', () => {
  const parse = (...ips: readonly unknown[]) => {
    try {
      return toNetworkResult(parseResult('p', { cniVersion: '1.1.0', ips }));
    } catch (error) {
      if (error instanceof CniError) return error.message;
      throw error;
    }
  };

  it('accepts addresses with and without a prefix length', () => {
    const gateway = '10.1.0.1';
    expect(parse({ address: '10.1.0.5/24', gateway }, { address: 'fd00::5/64' })).toEqual({ ips: ['10.1.0.5', 'fd00::5'], gateway });
    expect(parse({ address: '10.1.0.5' })).toEqual({ ips: ['10.1.0.5'] });
  });

  it.each([
    '10.1.0.5\n10.9.9.9 kubernetes.default',
    '10.1.0.5/24/24',
    '10.1.0.5/33',
    '10.1.0.5/-1',
    'fe80::1%eth0/64',
    '$(reboot)',
    '10.1.0.5; flush ruleset',
    '',
    '::/129',
    '0x7f.1',
  ])('rejects the address %j', (address) => {
    expect(parse({ address })).toBe(`the result has an invalid address: ${JSON.stringify(address)}`);
  });

  it('quotes of the message of an error as much as an event can hold', () => {
    const message = 'x'.repeat(1_000_000);
    expect(toNetworkError(new CniError('first', { command: 'ADD', cniCode: 5, message })).message.length).toBeLessThan(5000);
  });

  it('has no addresses in the form of older versions', () => {
    const old = { cniVersion: '0.1.0', ip4: { ip: '10.1.0.5/24' } };
    expect(toNetworkResult(parseResult('first', old)).ips).toEqual([]);
  });

  it('rejects gateways that are not addresses, and more addresses than a pod can have', () => {
    for (const gateway of ['10.1.0.1/24', 'host', 5, null, {}])
      expect(parse({ address: '10.1.0.5', gateway })).toBe('the result has an invalid gateway');
    const many = Array.from({ length: 65 }, () => ({ address: '10.1.0.5' }));
    expect(parse(...many)).toBe('the result has more than 64 addresses');
    for (const entry of [null, 5, 'x', {}, { address: 5 }, { address: null }])
      expect(parse(entry)).toBe('the result has no list of addresses');
  });
});
