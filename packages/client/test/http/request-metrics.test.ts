import { configMaps } from '@oarlock/api/resources';
import { httpClient, type HttpClient, type HttpClientOptions } from '@oarlock/client/http/client';
import { RequestMetrics } from '@oarlock/client/http/request-metrics';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi } from '@oarlock/testing/memory-api';
import { Registry } from 'prom-client';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { makeCertificates, type Certificates } from '../support/certificates.ts';
import { httpsFront } from '../support/https-front.ts';

const at = (name: string) => ({ namespace: 'd', name });

describe('RequestMetrics', () => {
  let certificates: Certificates;
  beforeAll(async () => {
    certificates = await makeCertificates();
  });

  const connected = async (options: Partial<HttpClientOptions>): Promise<{ readonly http: HttpClient; readonly url: string }> => {
    const { url, close } = await httpsFront(memoryApi({ clock: new FakeClock() }).handler, certificates);
    const http = httpClient({ server: url, ca: certificates.ca, userAgent: 'test/1', ...options });
    onTestFinished(async () => {
      await http.close();
      await close();
    });
    return { http, url };
  };

  it('counts requests by code, method and host, and measures all but watches', async () => {
    const registry = new Registry();
    const { http, url } = await connected({ metrics: new RequestMetrics(registry) });
    await http.withUserAgent('kubelet/1').create(configMaps, { metadata: at('one') });
    await expect(http.get(configMaps, at('none'))).rejects.toMatchObject({ reason: 'NotFound' });
    const stop = new AbortController();
    const events = http.watch(configMaps, { signal: stop.signal })[Symbol.asyncIterator]();
    await events.next();
    stop.abort();
    const { host } = new URL(url);
    const text = await registry.metrics();
    for (const line of [
      `rest_client_requests_total{code="201",method="POST",host="${host}"} 1`,
      `rest_client_requests_total{code="404",method="GET",host="${host}"} 1`,
      `rest_client_requests_total{code="200",method="GET",host="${host}"} 1`,
      `rest_client_request_duration_seconds_count{verb="POST",host="${host}"} 1`,
      `rest_client_request_duration_seconds_count{verb="GET",host="${host}"} 1`,
    ])
      expect(text).toContain(`${line}\n`);
  });

  it('counts requests without a response', async () => {
    const registry = new Registry();
    const { http } = await connected({ server: 'https://127.0.0.1:1', metrics: new RequestMetrics(registry) });
    await expect(http.create(configMaps, { metadata: at('one') })).rejects.toMatchObject({ reason: 'ServiceUnavailable' });
    expect(await registry.metrics()).toContain('rest_client_requests_total{code="<error>",method="POST",host="127.0.0.1:1"} 1\n');
  });
});
