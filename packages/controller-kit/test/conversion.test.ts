import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { conversionOf, convertReview } from '../src/conversion.ts';
import { customResource } from '../src/custom-resource.ts';

const Lamp = customResource({ group: 'example.com', kind: 'Lamp', version: { name: 'v2', spec: z.object({ watts: z.int() }) } }).alsoServes(
  { name: 'v1', spec: z.object({ power: z.string() }) },
  {
    toStored: ({ metadata, spec }) => ({ metadata, spec: { watts: Number.parseInt(spec.power, 10) } }),
    fromStored: ({ metadata, spec }) => ({ metadata, spec: { power: `${spec.watts}W` } }),
  },
);
const review = (request: object) => ({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'ConversionReview', request });

describe('convertReview', () => {
  it('converts every object', () => {
    const objects = [
      { apiVersion: 'example.com/v1', kind: 'Lamp', metadata: { name: 'a' }, spec: { power: '40W' } },
      { apiVersion: 'example.com/v2', kind: 'Lamp', metadata: { name: 'b' }, spec: { watts: 60 } },
    ];
    expect(convertReview(Lamp, review({ uid: '1', desiredAPIVersion: 'example.com/v2', objects }))).toEqual({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'ConversionReview',
      response: {
        uid: '1',
        result: { status: 'Success' },
        convertedObjects: [{ apiVersion: 'example.com/v2', kind: 'Lamp', metadata: { name: 'a' }, spec: { watts: 40 } }, objects[1]],
      },
    });
  });

  it('answers with the error of a conversion', () => {
    const objects = [{ apiVersion: 'example.com/v3', kind: 'Lamp', metadata: { name: 'a' } }];
    expect(convertReview(Lamp, review({ uid: '1', desiredAPIVersion: 'example.com/v2', objects }))).toMatchObject({
      response: { uid: '1', result: { status: 'Failure', message: 'lamps.example.com has no version "example.com/v3"' } },
    });
  });

  it.each<unknown>([undefined, 'text', {}, review([]), review({ uid: 1 }), { ...review({}), apiVersion: 'apiextensions.k8s.io/v1beta1' }])(
    'rejects %j',
    (body) => {
      expect(convertReview(Lamp, body)).toBeUndefined();
    },
  );
});

describe('conversionOf', () => {
  const clientConfigOf = (serverUrl: string) => conversionOf(Lamp, { caBundle: 'CA', serverUrl }).webhook?.clientConfig;

  it('names the Service of the API servers, or the URL of one with a loopback address', () => {
    const path = '/oarlock/v1/convert/lamps.example.com';
    const caBundle = Buffer.from('CA').toString('base64');
    expect(clientConfigOf('https://10.0.0.1:6443')).toEqual({
      service: { namespace: 'default', name: 'kubernetes', port: 443, path },
      caBundle,
    });
    for (const server of ['https://127.0.0.1:6443', 'https://localhost:1', 'https://[::1]:6443'])
      expect(clientConfigOf(server)).toEqual({ url: `${server}${path}`, caBundle });
  });
});
