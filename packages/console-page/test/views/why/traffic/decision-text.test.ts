import { expect, it } from 'vitest';
import { decisionText } from '../../../../src/views/why/traffic/decision-text.ts';

const pod = { namespace: 'a', name: 'b', labels: {}, ips: ['10.0.0.1'], ports: [] };

it.each([
  [{ allowed: true, isolatedBy: [], allowedBy: [] }, 'Allowed: no policy isolates the pod in this direction'],
  [{ allowed: false, isolatedBy: ['a/p', 'a/q'], allowedBy: [] }, 'Denied: no rule of a/p, a/q allows it'],
  [{ allowed: true, isolatedBy: ['a/p'], allowedBy: [{ policy: 'a/p', rule: 2 }] }, 'Allowed by a/p spec.ingress[2]'],
])('names the policies and rules that decide: %j', (decision, expected) => {
  expect(decisionText({ direction: 'ingress', ...decision }, { ip: '10.0.0.1', pod })).toBe(expected);
});
