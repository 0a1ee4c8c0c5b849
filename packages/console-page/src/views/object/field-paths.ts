/** Returns the paths of a field set in the format FieldsV1, such as `spec.containers[name=web].image`. */
export function fieldPaths(fields: Readonly<Record<string, unknown>>, prefix = ''): readonly string[] {
  return Object.entries(fields).flatMap(([key, value]) => {
    if (key === '.') return prefix === '' ? [] : [prefix];
    const path = `${prefix}${segmentOf(key, prefix === '')}`;
    const inner = typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};
    return Object.keys(inner).length === 0 ? [path] : fieldPaths(inner, path);
  });
}

function segmentOf(key: string, isFirst: boolean): string {
  const content = key.slice(2);
  if (key.startsWith('f:')) return /^[\w-]+$/.test(content) ? `${isFirst ? '' : '.'}${content}` : `[${JSON.stringify(content)}]`;
  if (key.startsWith('k:')) {
    const keys = JSON.parse(content) as Readonly<Record<string, unknown>>;
    return `[${Object.entries(keys)
      .map(([name, value]) => `${name}=${String(value)}`)
      .join(',')}]`;
  }
  return `[${content}]`;
}
