<?php

declare(strict_types=1);

namespace PartnerSdk;

/** The client has to link again: there are no tokens, or a refresh was rejected and the tokens are forgotten. */
final class LinkAgainException extends \RuntimeException
{
    public function __construct(public readonly string $link, string $reason)
    {
        parent::__construct("$link must link again: $reason");
    }
}
