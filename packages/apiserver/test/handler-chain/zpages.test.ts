import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { ZPages } from '../../src/handler-chain/zpages.ts';

const clock = new FakeClock();
const startedAt = clock.now();
const pages = new ZPages(
  { component: 'kube-apiserver', startedAt, version: 'v1.36.0+oarlock.test', flags: { 'bind-address': '::', 'secure-port': '6443' } },
  clock,
);
const served = ['/', '/api', '/api/v1', '/healthz', '/healthz/ping', '/version'];
const page = (path: string, accept?: string) => pages.page(path, accept, served);
const json = (path: string, accept: string): unknown => JSON.parse(String(page(path, accept).body));
const warning = /^Warning: This endpoint is not meant to be machine parseable/m;

describe('z-pages', () => {
  it.each([undefined, '', '*/*', 'text/plain', 'text/*', 'application/json, */*'])('are text for Accept: %s', (accept) => {
    for (const path of pages.paths) {
      const { contentType, body } = page(path, accept);
      expect(contentType).toBe('text/plain; charset=utf-8');
      expect(body).toMatch(warning);
    }
  });

  it('show the start, the versions and the paths', async () => {
    await clock.advance(3_725_000);
    const date = /^Started: [A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d UTC \d{4}$/m;
    const text = String(page('/statusz').body);
    expect(text).toMatch(/^\nkube-apiserver statusz\n/);
    expect(text).toMatch(date);
    expect(Date.parse(/^Started: (.*)$/m.exec(text)?.[1] ?? '')).toBe(Math.floor(startedAt / 1000) * 1000);
    expect(text.split('\n').slice(5)).toEqual([
      'Up: 1 hr 02 min 05 sec',
      `Go version: ${process.version}`,
      'Binary version: 1.36.0+oarlock.test',
      'Emulation version: 1.36',
      'Paths: /api /healthz /version',
      '',
    ]);
  });

  it('show the flags', () => {
    expect(page('/flagz').body).toMatch(/^\nkube-apiserver flags\nWarning: .*\n\nbind-address=::\nsecure-port=6443\n$/);
  });

  it.each(['v1beta1', 'v1alpha1'])('are objects of config.k8s.io/%s by media type', (version) => {
    const accept = (as: string, type = 'json') => `application/${type};v=${version};g=config.k8s.io;as=${as}`;
    const head = (kind: string) => ({ kind, apiVersion: `config.k8s.io/${version}`, metadata: { name: 'kube-apiserver' } });
    expect(json('/flagz', accept('Flagz'))).toEqual({ ...head('Flagz'), flags: { 'bind-address': '::', 'secure-port': '6443' } });
    expect(json('/statusz', accept('Statusz'))).toEqual({
      ...head('Statusz'),
      startTime: new Date(Math.floor(startedAt / 1000) * 1000).toISOString().replace('.000', ''),
      uptimeSeconds: Math.floor((clock.now() - startedAt) / 1000),
      goVersion: process.version,
      binaryVersion: '1.36.0+oarlock.test',
      emulationVersion: '1.36',
      paths: ['/api', '/healthz', '/version'],
    });
    expect(page('/flagz', accept('Flagz', 'yaml'))).toMatchObject({ contentType: 'application/yaml' });
  });

  it.each([
    'application/json',
    'application/xml',
    'application/json;v=v1beta1;g=config.k8s.io',
    'application/json;v=v1;g=config.k8s.io;as=Statusz',
    'application/json;v=v1beta1;g=config.k8s.io;as=Flagz',
  ])('rejects Accept: %s', (accept) => {
    expect(() => page('/statusz', accept)).toThrow(
      /^only the following media types are accepted: text\/plain, application\/json;g=config.k8s.io;/,
    );
  });
});
