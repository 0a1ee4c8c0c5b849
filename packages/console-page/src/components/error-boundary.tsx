import { Component, type ComponentChildren } from 'preact';
import { text } from '../text/en.ts';
import { ErrorMessage } from './error-message.tsx';

interface Props {
  readonly children: ComponentChildren;
}

/** Shows the error of a view that fails, instead of an empty page. */
export class ErrorBoundary extends Component<Props, { readonly error?: unknown }> {
  override state: { readonly error?: unknown } = {};

  override componentDidCatch(error: unknown): void {
    this.setState({ error });
  }

  override render() {
    const { error } = this.state;
    if (error === undefined) return this.props.children;
    return <ErrorMessage title={text.errors.view} error={error} onRetry={() => this.setState({ error: undefined })} />;
  }
}
