import { describe, expect, it } from 'vitest';
import { StatusError } from '@oarlock/api/status';
import { patchErrorsOf } from '../../src/endpoints/request/patch-errors.ts';
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

  it('keeps the last value and records the error, which is reported when the patch is applied', () => {
    const { body, warnings } = decode(json, 'application/merge-patch+json');
    expect([body, warnings]).toEqual([{ data: { a: '2' } }, []]);
    expect(patchErrorsOf(body)).toEqual(['duplicate field "data.a"']);
    const applied = decode(yaml, 'application/apply-patch+yaml', 'Strict').body;
    expect(applied).toEqual({ data: { a: '2' } });
    expect(patchErrorsOf(applied)).toEqual([
      'error converting YAML to JSON: yaml: unmarshal errors:\n  line 3: key "a" already set in map',
    ]);
    expect(() => decode('{"a', 'application/apply-patch+yaml', 'Strict')).toThrowError(StatusError);
  });

  it('records nothing under Ignore', () => {
    expect(patchErrorsOf(decode(yaml, 'application/apply-patch+yaml', 'Ignore').body)).toEqual([]);
  });
});
