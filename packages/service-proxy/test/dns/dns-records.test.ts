import type { Service } from '@oarlock/api/types/core-v1';
import type { EndpointSlice } from '@oarlock/api/types/discovery-v1';
import { describe, expect, it } from 'vitest';
import { dnsRecords } from '../../src/dns/dns-records.ts';

const service = (spec: NonNullable<Service['spec']>): Service => ({ metadata: { name: 'web', namespace: 'shop' }, spec });
const slice = (endpoints: NonNullable<EndpointSlice['endpoints']>, addressType = 'IPv4'): EndpointSlice => ({
  addressType,
  endpoints,
  ports: [
    { name: 'http', port: 8080, protocol: 'TCP' },
    { port: 9, protocol: 'UDP' },
  ],
});

describe('DNS records of a Service', () => {
  it('are its cluster IPs, of both families, with SRV records of its named ports', () => {
    expect(
      dnsRecords(
        service({
          clusterIP: '10.96.0.7',
          clusterIPs: ['10.96.0.7', 'fd00::7'],
          ports: [
            { name: 'http', port: 80, protocol: 'TCP' },
            { name: 'dns', port: 53, protocol: 'UDP' },
          ],
        }),
        [],
      ),
    ).toEqual([
      {
        name: 'web.shop.svc',
        addresses: ['10.96.0.7', 'fd00::7'],
        srv: [
          { name: 'http', protocol: 'tcp', port: 80, target: 'web.shop.svc' },
          { name: 'dns', protocol: 'udp', port: 53, target: 'web.shop.svc' },
        ],
      },
    ]);
  });

  it('have no SRV for unnamed ports, and do not exist without a cluster IP', () => {
    expect(dnsRecords(service({ clusterIP: '10.96.0.7', ports: [{ port: 80 }] }), [])).toEqual([
      { name: 'web.shop.svc', addresses: ['10.96.0.7'] },
    ]);
    expect(dnsRecords(service({ ports: [{ port: 80 }] }), [])).toEqual([]);
  });

  it('are those of the ready endpoints of a headless Service: by hostname, else by address', () => {
    const records = dnsRecords(service({ clusterIP: 'None', clusterIPs: ['None'] }), [
      slice([
        { addresses: ['10.244.0.5'], hostname: 'web-0', conditions: { ready: true } },
        { addresses: ['10.244.0.6'], conditions: {} },
        { addresses: ['10.244.0.7'], hostname: 'web-2', conditions: { ready: false } },
      ]),
      slice([{ addresses: ['fd00::5'], hostname: 'web-0', conditions: { ready: true } }], 'IPv6'),
    ]);
    expect(records).toEqual([
      {
        name: 'web.shop.svc',
        addresses: ['10.244.0.5', '10.244.0.6', 'fd00::5'],
        srv: [
          { name: 'http', protocol: 'tcp', port: 8080, target: 'web-0.web.shop.svc' },
          { name: 'http', protocol: 'tcp', port: 8080, target: '10-244-0-6.web.shop.svc' },
        ],
      },
      { name: 'web-0.web.shop.svc', addresses: ['10.244.0.5', 'fd00::5'] },
      { name: '10-244-0-6.web.shop.svc', addresses: ['10.244.0.6'] },
    ]);
  });

  it('remain for a headless Service without endpoints, so that the response is NODATA, not NXDOMAIN', () => {
    expect(dnsRecords(service({ clusterIP: 'None' }), [])).toEqual([{ name: 'web.shop.svc', addresses: [] }]);
  });

  it('are a CNAME or an address for ExternalName', () => {
    expect(dnsRecords(service({ type: 'ExternalName', externalName: 'db.example.com' }), [])).toEqual([
      { name: 'web.shop.svc', addresses: [], cname: 'db.example.com' },
    ]);
    expect(dnsRecords(service({ type: 'ExternalName', externalName: '192.0.2.1' }), [])).toEqual([
      { name: 'web.shop.svc', addresses: ['192.0.2.1'] },
    ]);
  });
});
