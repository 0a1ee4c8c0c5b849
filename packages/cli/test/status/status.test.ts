import { parse, stringify } from 'yaml';
import { expect, it } from 'vitest';
import { CommandError } from '../../src/common/command-error.ts';
import { withServers } from '../../src/status/status.ts';

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
