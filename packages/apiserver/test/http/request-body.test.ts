import { describe, expect, it } from 'vitest';
import { StatusError } from '@oarlock/api/status';
import { decodeRequestBody } from '../../src/http/request-body.ts';
import type { Route } from '../../src/http/routes.ts';

const route = { verb: 'patch', kind: { group: '', version: 'v1', kind: 'ConfigMap' } } as unknown as Route;

function decode(text: string, contentType: string, fieldValidation?: string) {
  const warnings: string[] = [];
  const query = { first: { ...(fieldValidation !== undefined && { fieldValidation }) } } as unknown as Parameters<
    typeof decodeRequestBody
  >[1]['query'];
  const body = decodeRequestBody(Buffer.from(text), {
    route,
    query,
    contentType,
    protobuf: undefined,
    warn: (message) => warnings.push(message),
  });
  return { body, warnings };
}

describe('[sig-api-machinery] FieldValidation should detect duplicates in a CR when preserving unknown fields, in patches of each type', () => {
  const json = '{"data":{"a":"1","a":"2"}}';
  const yaml = 'data:\n  a: "1"\n  a: "2"\n';

  it('keeps the last value and warns', () => {
    expect(decode(json, 'application/merge-patch+json')).toEqual({ body: { data: { a: '2' } }, warnings: ['duplicate field "data.a"'] });
    expect(decode(json, 'application/apply-patch+yaml', 'Warn').warnings).toEqual(['duplicate field "data.a"']);
    const { body, warnings } = decode(yaml, 'application/apply-patch+yaml');
    expect(body).toEqual({ data: { a: '2' } });
    expect(warnings).toEqual([expect.stringContaining('line 3: key "a" already set in map')]);
  });

  it('rejects the patch under Strict', () => {
    expect(() => decode(json, 'application/merge-patch+json', 'Strict')).toThrowError(/strict decoding error: duplicate field "data.a"/);
    expect(() => decode(yaml, 'application/apply-patch+yaml', 'Strict')).toThrowError(/^error strict decoding YAML: .*already set in map/s);
    expect(() => decode('{"a', 'application/apply-patch+yaml', 'Strict')).toThrowError(StatusError);
  });

  it('does not warn under Ignore', () => {
    expect(decode(yaml, 'application/apply-patch+yaml', 'Ignore').warnings).toEqual([]);
  });
});
