import type { StorageMember } from '@oarlock/spi/storage-server';
import { expect, it } from 'vitest';
import { formatClusterStatus } from '../../src/status/cluster-status.ts';

it('prints servers, members, leaders, nodes and certificates, and what is unknown', () => {
  const server = { url: 'https://10.0.0.1:6443', ready: true, version: 'v1.36.0' };
  const member = {
    id: '1',
    name: 'a',
    endpoint: 'https://10.0.0.1:2379',
    databaseBytesInUse: 0,
    role: 'Leader',
    version: '3.4.23',
    databaseBytes: 1024 * 1024,
    alarms: ['NOSPACE'],
  } satisfies StorageMember;
  const text = formatClusterStatus(
    {
      servers: [
        { name: 'a', ...server, member, certificateExpiresAt: '2027-11-24T12:00:00Z' },
        { name: 'b', ...server, ready: false },
      ],
      leaders: [{ component: 'kube-scheduler', holder: '' }],
      nodes: [{ name: 'n1', status: 'NotReady', version: 'v1.36.0', address: '10.0.0.9', renewedAt: '2026-11-24T11:59:00Z' }],
      certificates: [{ name: 'CA', expiresAt: '2036-11-24T12:00:00Z' }],
      skew: ['n1: a node must not be newer than a server'],
    },
    Date.parse('2026-11-24T12:00:00Z'),
  );
  expect(text.split('\n').map((line) => line.replace(/ {2,}/g, ' | '))).toEqual([
    'SERVER | STATUS | URL | VERSION | CERTIFICATE',
    'a | Ready | https://10.0.0.1:6443 | v1.36.0 | 2027-11-24 (365d)',
    'b | NotReady | https://10.0.0.1:6443 | v1.36.0 | <unknown>',
    '',
    'MEMBER | ETCD | ETCD-VERSION | DB-SIZE | ALARMS',
    'a | Leader | 3.4.23 | 1.0 MiB | NOSPACE',
    '',
    'LEADER OF | HOLDER | RENEWED',
    'kube-scheduler | <none> | <never>',
    '',
    'NODE | STATUS | VERSION | ADDRESS | RENEWED | CERTIFICATE',
    'n1 | NotReady | v1.36.0 | 10.0.0.9 | 60s ago | <unknown>',
    '',
    'CERTIFICATE | EXPIRES',
    'CA | 2036-11-24 (3653d)',
    '',
    'Alarm NOSPACE of the member a: the space quota is reached and writes fail: delete objects, then run `oarlock etcd defragment`',
    '',
    'Version skew: n1: a node must not be newer than a server',
  ]);
});
