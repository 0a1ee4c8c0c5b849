import { parse, stringify } from 'yaml';
import { expect, it } from 'vitest';
import { CommandError } from '../../src/common/command-error.ts';
import { textOf, withServers } from '../../src/status/status.ts';

const config = stringify({
  clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:6443', 'certificate-authority-data': 'Y2E=' } }],
  users: [{ name: 'admin', user: { token: 't' } }],
  contexts: [{ name: 'admin@c', context: { cluster: 'c', user: 'admin' } }],
  'current-context': 'admin@c',
});

it('writes a context for each server', () => {
  expect(parse(withServers(config, ['https://10.0.0.1:6443', 'https://10.0.0.2:6443']))).toEqual({
    clusters: [
      { name: 'c', cluster: { server: 'https://10.0.0.1:6443', 'certificate-authority-data': 'Y2E=' } },
      { name: 'c-2', cluster: { server: 'https://10.0.0.2:6443', 'certificate-authority-data': 'Y2E=' } },
    ],
    users: [{ name: 'admin', user: { token: 't' } }],
    contexts: [
      { name: 'admin@c', context: { cluster: 'c', user: 'admin' } },
      { name: 'admin@c-2', context: { cluster: 'c-2', user: 'admin' } },
    ],
    'current-context': 'admin@c',
  });
});

it.each(['10.0.0.1:6443', 'http://10.0.0.1:6443', ''])('rejects the server %j', (server) => {
  expect(() => withServers(config, [server])).toThrow(
    new CommandError(`--server: ${JSON.stringify(server)} is not a URL that begins with https://`, 2),
  );
});

const facts = { pid: 7, roles: ['kubelet'], ready: true, server: 'https://127.0.0.1:6443' };

it('prints the process alone without an API server', () => {
  expect(textOf(facts)).toBe('process 7: kubelet; ready; https://127.0.0.1:6443');
  expect(textOf({ ...facts, ready: false })).toBe('process 7: kubelet; not ready; https://127.0.0.1:6443');
});

it('prints checks, plugins with their faults, and nodes without isolation or images', () => {
  const faults = { error: 2, deadline: 0, late: 0, ended: 1, denied: 0 };
  const apiServer = {
    checks: ['[+]ping ok', 'readyz check passed'],
    plugins: [{ name: 'a', slot: 'admission/v1', healthy: false, suspended: false, reason: 'it threw', faults }],
    nodesWithoutIsolation: [{ name: 'n', message: 'no namespaces' }],
    nodesWithoutImages: [{ name: 'n', message: 'no images' }],
  };
  expect(
    textOf({ ...facts, apiServer })
      .split('\n')
      .slice(1),
  ).toEqual([
    '[+]ping ok',
    'readyz check passed',
    'plugin a: unhealthy: it threw (faults since the start: error 2, ended 1)',
    'node n: no namespaces',
    'node n: no images',
  ]);
});
