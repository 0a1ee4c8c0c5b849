import { describe, expect, it } from 'vitest';
import { parseTrafficPort, portNumberOf } from '../src/traffic-port.ts';

describe('parseTrafficPort', () => {
  it.each([
    ['80', { port: '80', protocol: 'TCP' }],
    ['53/udp', { port: '53', protocol: 'UDP' }],
    ['http', { port: 'http', protocol: 'TCP' }],
  ])('parses %s', (text, expected) => expect(parseTrafficPort(text)).toEqual(expected));

  it('rejects other protocols and numbers that are no ports', () => {
    expect(() => parseTrafficPort('80/icmp')).toThrow('"80/icmp": the protocol must be tcp, udp or sctp, not icmp');
    for (const text of ['', '0', '65536', '/udp']) expect(() => parseTrafficPort(text)).toThrow(RangeError);
  });
});

describe('portNumberOf', () => {
  const pod = { namespace: 'a', name: 'b', labels: {}, ips: [], ports: [{ name: 'http', protocol: 'TCP' as const, port: 8080 }] };
  it('resolves a name at its destination, for its protocol', () => {
    expect(portNumberOf({ port: '80', protocol: 'TCP' }, undefined)).toBe(80);
    expect(portNumberOf({ port: 'http', protocol: 'TCP' }, pod)).toBe(8080);
    expect(portNumberOf({ port: 'http', protocol: 'UDP' }, pod)).toBeUndefined();
  });
});
