import { failure, type StatusError } from '@oarlock/api/status';

/**
 * The maximum number of values in a request body: members of objects, elements of lists, and fields of protobuf messages. Decoding, defaulting and
 * validating a value takes about a microsecond each, so 3 MiB of values of a few bytes would block the event loop for more than a second. The
 * largest objects in use, CustomResourceDefinitions of more than 1 MB, have some 40,000 values.
 */
export const maxBodyValues = 100_000;

/** The error for a body with more than `maxBodyValues` values. */
export const tooManyValues = (): StatusError =>
  failure('RequestEntityTooLarge', `Request entity too large: a body may have ${maxBodyValues} values`);

const [quote, backslash, comma, openBrace, openBracket] = ['"', '\\', ',', '{', '['].map((char) => char.charCodeAt(0));

/**
 * The maximum number of values in a response of an extension API server. Parsing them takes about half a second; 64 MiB of empty objects would take
 * many times as long. Responses in use, lists of some 10,000 objects, stay below.
 */
export const maxRemoteValues = 2_000_000;

/** Validates the number of values of a request body. @throws StatusError RequestEntityTooLarge */
export function checkValueCount(json: Uint8Array): void {
  // each value has a delimiter besides itself
  if (json.length > maxBodyValues && countValues(json) > maxBodyValues) throw tooManyValues();
}

/** Counts the values of a JSON text without parsing it: one for each comma and opening bracket outside strings. */
export function countValues(json: Uint8Array): number {
  let [count, isString] = [0, false];
  for (let at = 0; at < json.length; at++) {
    const byte = json[at];
    if (byte === quote) isString = !isString;
    else if (isString) {
      if (byte === backslash) at++;
    } else if (byte === comma || byte === openBrace || byte === openBracket) count++;
  }
  return count;
}
