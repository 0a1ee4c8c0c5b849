/** What Go's decoder says of a text that is no JSON, as far as it can be told from what this one said. */
export function goSyntaxError(error: unknown, text: string): string {
  const message = error instanceof Error ? error.message : String(error);
  if (text.trim() === '' || message.includes('end of JSON input') || message.includes('Unterminated'))
    return 'unexpected end of JSON input';
  const token = /Unexpected token '?(.)/s.exec(message)?.[1];
  return token === undefined ? message : `invalid character '${token}' looking for beginning of value`;
}
