import { expect, it } from 'vitest';
import { waitingReason, type WaitingMember } from '../../src/managed/waiting-reason.ts';

const member: WaitingMember = { failure: undefined, isOnlyMember: false, logFile: '/etcd.log', recentLog: '' };
const rejected =
  'a member rejects the certificate of another one, which has expired or is not valid yet: compare the clocks of the servers (/etcd.log)';

it.each<[string, Partial<WaitingMember>, string]>([
  ['other members', {}, 'it waits for a quorum of the members, so start the other servers'],
  [
    'members that reject its certificate',
    { recentLog: '{"level":"warn","msg":"health check failed","error":"remote error: tls: bad certificate"}' },
    rejected,
  ],
  [
    'members whose certificates it rejects',
    { recentLog: '"error":"tls: failed to verify client certificate: x509: certificate has expired or is not yet valid: current time"' },
    rejected,
  ],
  ['itself, without other members', { isOnlyMember: true, recentLog: 'remote error: tls: bad certificate' }, '/etcd.log has its progress'],
  ['the next start of its program', { failure: 'etcd has ended' }, 'it ends'],
])('names what a member waits for: %s', (_, waiting, reason) => {
  expect(waitingReason({ ...member, ...waiting })).toBe(reason);
});
