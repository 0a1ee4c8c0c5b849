import type { Command } from 'commander';
import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';
import { describe, expect, it } from 'vitest';
import { formatFacts } from '../../src/common/output.ts';
import { program } from '../../src/main.ts';

const facts = { name: 'a', list: [1, 2], text: 'x'.repeat(200) };

describe('formatFacts', () => {
  it('prints the same facts as JSON and as YAML, and text for readers', () => {
    expect(JSON.parse(formatFacts('json', facts, String))).toEqual(facts);
    expect(parse(formatFacts('yaml', facts, String))).toEqual(facts);
    expect(formatFacts('text', facts, ({ name }) => `${name}\n\n`)).toBe('a\n');
  });

  it('prints no control characters of clients and nodes, but colors', () => {
    expect(formatFacts('text', facts, () => 'a\u001B[2J\u001B]0;x\u0007\rb\n\u001B[31mc\u001B[39m')).toBe(
      'a\uFFFD[2J\uFFFD]0;x\uFFFD\uFFFDb\n\u001B[31mc\u001B[39m\n',
    );
  });

  it('ends every format with one line end', () => {
    for (const format of ['text', 'json', 'yaml'] as const) expect(formatFacts(format, facts, () => 'line')).toMatch(/[^\n]\n$/);
  });
});

describe('commands with --output', () => {
  const commands = (command: Command, path = ''): readonly (readonly [string, Command])[] =>
    command.commands.flatMap((child) => {
      const name = `${path} ${child.name()}`.trim();
      return [[name, child] as const, ...commands(child, name)];
    });
  const printing = commands(program()).filter(([, command]) =>
    command.options.some(({ long, argChoices }) => long === '--output' && argChoices !== undefined),
  );

  it('all accept the same formats', () => {
    expect(printing.length).toBeGreaterThanOrEqual(13);
    for (const [name, { options }] of printing)
      expect(options.find(({ long }) => long === '--output')?.argChoices, name).toEqual(['text', 'json', 'yaml']);
  });

  it.each(printing.map(([name]) => name))('have a documented shape: %s', async (name) => {
    const page = await readFile(new URL('../../../../docs/command-line.md', import.meta.url), 'utf8');
    expect(page).toContain(`| \`${name}\` |`);
  });
});
