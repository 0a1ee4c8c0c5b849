import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pods } from '@oarlock/api/resources';
import type { Pod } from '@oarlock/api/types/core-v1';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import { openAdmission } from '@oarlock/testing/open-admission';
import { describe, expect, it } from 'vitest';
import plugin from '../src/plugin.ts';

interface Asked {
  readonly containers: readonly { readonly image: string }[];
  readonly annotations?: Readonly<Record<string, string>>;
  readonly namespace: string;
}
const pod = (image: string, annotations: Record<string, string> = {}): Pod => ({
  metadata: { namespace: 'd', name: 'p', annotations },
  spec: { containers: [{ name: 'c', image }], initContainers: [{ name: 'i', image: 'good/init' }] },
});

async function open(config: object = {}) {
  const asked: Asked[] = [];
  let broken = false;
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => (text += chunk));
    request.on('end', () => {
      const { spec } = JSON.parse(text) as { spec: Asked };
      asked.push(spec);
      const wrong = spec.containers.find(({ image }) => !image.startsWith('good/'));
      response.statusCode = broken ? 500 : 200;
      response.end(JSON.stringify({ status: { allowed: wrong === undefined, ...(wrong && { reason: `${wrong.image} is not allowed` }) } }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const opened = await openAdmission(plugin, { config: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, ...config } });
  return {
    ...opened,
    asked,
    breakDown: () => {
      broken = true;
    },
    async dispose() {
      await opened.dispose();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

admissionContract('admission-image-policy-webhook', async () => ({
  ...(await open()),
  cases: [
    { title: 'good images', request: admissionRequest('CREATE', pods, pod('good/web')), expected: 'allowed' },
    {
      title: 'a wrong image',
      request: admissionRequest('CREATE', pods, pod('evil/web')),
      expected: 'denied',
      message: 'image policy webhook backend denied one or more images: evil/web is not allowed',
    },
    {
      title: 'an update to a wrong image',
      request: admissionRequest('UPDATE', pods, pod('evil/web'), { old: pod('good/web') }),
      expected: 'denied',
    },
    {
      title: 'an update of something else',
      request: admissionRequest('UPDATE', pods, pod('evil/web', { a: 'b' }), { old: pod('evil/web') }),
      expected: 'allowed',
    },
  ],
}));

describe('admission-image-policy-webhook', () => {
  it('sends the annotations for the webhook, and caches responses', async () => {
    const { plugin: policy, asked, clock, dispose } = await open();
    const request = admissionRequest('CREATE', pods, pod('good/web', { 'acme.image-policy.k8s.io/ticket': '7', other: 'x' }));
    await policy.validate?.(request);
    await policy.validate?.(request);
    expect(asked).toEqual([
      {
        containers: [{ image: 'good/web' }, { image: 'good/init' }],
        annotations: { 'acme.image-policy.k8s.io/ticket': '7' },
        namespace: 'd',
      },
    ]);
    await clock.advance(50_001);
    await policy.validate?.(request);
    expect(asked).toHaveLength(2);
    await dispose();
  });

  it('admits pods without a response only with defaultAllow', async () => {
    for (const defaultAllow of [true, false]) {
      const opened = await open({ defaultAllow });
      opened.breakDown();
      expect(await opened.plugin.validate?.(admissionRequest('CREATE', pods, pod('good/web')))).toMatchObject({ allowed: defaultAllow });
      await opened.dispose();
    }
  });

  it('reports why there was no response', async () => {
    const failed = await open();
    failed.breakDown();
    const request = admissionRequest('CREATE', pods, pod('good/web'));
    expect(await failed.plugin.validate?.(request)).toEqual({ allowed: false, message: 'the image policy webhook returned status 500' });
    await failed.dispose();
    const { plugin: alone, dispose } = await openAdmission(plugin, { config: { url: 'http://127.0.0.1:1/' } });
    expect(await alone.validate?.(request)).toEqual({
      allowed: false,
      message: 'Post "http://127.0.0.1:1/": dial tcp 127.0.0.1:1: connect: connection refused',
    });
    await dispose();
  });
});
