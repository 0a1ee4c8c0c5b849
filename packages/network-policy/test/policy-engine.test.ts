import type { NetworkPolicy } from '@oarlock/api/types/networking-v1';
import { describe, expect, it } from 'vitest';
import { PolicyEngine } from '../src/policy-engine.ts';

describe('addresses of pods of this node', () => {
  const ip = '10.0.0.9';
  const denyIngress: NetworkPolicy = {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: 'closed', namespace: 'a' },
    spec: { podSelector: { matchLabels: { closed: 'yes' } }, policyTypes: ['Ingress'] },
  };
  const closed = { namespace: 'a', labels: { closed: 'yes' }, ips: [ip] };
  const open = { namespace: 'a', labels: {}, ips: [ip] };
  const engineWithPolicy = () => {
    const engine = new PolicyEngine();
    engine.setPolicy('a/closed', 'a', denyIngress);
    return engine;
  };
  const isIsolated = (engine: PolicyEngine, address = ip) => engine.isolationByAddress.ingress.has(address);

  it('are isolated by the policies of the pod that got the address last', () => {
    const engine = engineWithPolicy();
    engine.setLocal('ended', closed);
    engine.setLocal('new', open);
    expect(isIsolated(engine)).toBe(false);
    engine.setLocal('ended', undefined);
    expect(isIsolated(engine)).toBe(false);
  });

  it('stay isolated when another pod that reported the same address ends', () => {
    const engine = engineWithPolicy();
    engine.setLocal('running', closed);
    // after a restart, the pod that ended can be listed after the pod that has its address now
    engine.setLocal('ended', open);
    engine.takeChanges();
    engine.setLocal('ended', undefined);
    expect(isIsolated(engine)).toBe(true);
    expect([...engine.takeChanges().addresses]).toEqual([ip]);
  });

  it('follow a pod to another address', () => {
    const engine = engineWithPolicy();
    engine.setLocal('p', closed);
    engine.setLocal('p', { ...closed, ips: ['10.0.0.10'] });
    expect(isIsolated(engine)).toBe(false);
    expect(isIsolated(engine, '10.0.0.10')).toBe(true);
    engine.setPolicy('a/closed', 'a', undefined);
    expect(isIsolated(engine, '10.0.0.10')).toBe(false);
  });
});
