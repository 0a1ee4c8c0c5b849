import { endpoint, servicePort } from '@oarlock/spi/proxy/contract';
import { describe, expect, it } from 'vitest';
import { familiesOf, buildPortRules } from '../src/port-rules.ts';
import { changedUdpFrontends, parseFlow } from '../src/udp-flows.ts';

const here = endpoint('10.244.0.1', 8080);
const there = endpoint('10.244.1.1', 8080, { local: false });
const port = (more: Partial<Parameters<typeof servicePort>[1]> = {}) =>
  servicePort('d/web:http', { port: 80, clusterIPs: ['10.96.0.1', 'fd00::1'], endpoints: [here, there], ...more });

describe('rules of a port', () => {
  it('have the endpoints of the traffic policy for each frontend', () => {
    expect(buildPortRules(port(), 'ip')).toMatchObject({
      internalEndpoints: [here, there],
      externalEndpoints: [here, there],
      routesLocalTrafficToCluster: false,
      masqueradesExternal: true,
    });
    expect(buildPortRules(port({ internalLocal: true, externalLocal: true }), 'ip')).toMatchObject({
      internalEndpoints: [here],
      externalEndpoints: [here],
      reachableEndpoints: [here, there],
      routesLocalTrafficToCluster: true,
      masqueradesExternal: false,
    });
  });

  it('exclude endpoints for policy Local from policy Cluster', () => {
    const leaving = endpoint('10.244.0.9', 8080, { localOnly: true, ready: false, terminating: true });
    expect(buildPortRules(port({ endpoints: [leaving, there], externalLocal: true }), 'ip')).toMatchObject({
      internalEndpoints: [there],
      externalEndpoints: [leaving],
    });
  });

  it('are of one family', () => {
    expect(buildPortRules(port({ nodePort: 30_000 }), 'ip6')?.frontends).toEqual([
      { kind: 'cluster', address: 'fd00::1', port: 80, hasEndpoints: false },
      { kind: 'node-port', port: 30_000, hasEndpoints: false },
    ]);
    expect(buildPortRules(port({ clusterIPs: ['10.96.0.1'], nodePort: 30_000 }), 'ip6')).toBeUndefined();
    expect(familiesOf(['10.96.0.0/16', 'fd00::/108'])).toEqual(['ip', 'ip6']);
  });
});

describe('UDP flows', () => {
  it("are parsed from conntrack's output", () => {
    expect(
      parseFlow(
        'udp      17 29 src=10.0.0.2 dst=10.96.0.1 sport=4000 dport=53 [UNREPLIED] src=10.244.0.1 dst=10.0.0.2 sport=5353 dport=4000',
      ),
    ).toEqual({ src: '10.0.0.2', dst: '10.96.0.1', sport: '4000', dport: '53', replySrc: '10.244.0.1', replyPort: '5353' });
    expect(parseFlow('conntrack v1.4.7 (conntrack-tools): 1 flow entries have been shown.')).toBeUndefined();
  });

  it('are checked only if an endpoint was removed or an address is new', () => {
    const udp = (more: Partial<Parameters<typeof servicePort>[1]> = {}) => port({ protocol: 'UDP', clusterIPs: ['10.96.0.1'], ...more });
    const known = new Map([['d/web:http', udp()]]);
    expect(changedUdpFrontends(known, [udp({ endpoints: [here, there, endpoint('10.244.0.3', 8080)] })], []).size).toBe(0);
    expect(changedUdpFrontends(known, [port()], []).get('10.96.0.1 80')?.endpoints.size).toBe(0);
    expect(changedUdpFrontends(known, [udp({ endpoints: [there] })], []).get('10.96.0.1 80')?.endpoints).toEqual(
      new Set(['10.244.1.1:8080']),
    );
    expect(changedUdpFrontends(known, [], ['d/web:http']).get('10.96.0.1 80')?.endpoints.size).toBe(0);
    expect(changedUdpFrontends(new Map(), [udp({ nodePort: 30_000 })], []).has(' 30000')).toBe(true);
  });
});
