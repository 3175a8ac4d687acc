#!/usr/bin/env perl
# What a node of the cluster runs for one attempt: its command, and the truth about how it ended.
#
# The order is in the attempt's directory, which the node and the daemon share. Whoever makes
# `start` there first runs the attempt; any other start of it gives way. `exit` is put down whole
# or not at all. Perl, without any of its modules: a shell can't tell an exit code of 143 from a
# signal, and would let the job ignore Ctrl-C; Python takes twenty times as long to begin. The usual
# pragmas would take a third of its time, so a test has them in its place.

my $GIVES_WAY = 75;
my $CAN_NOT_BEGIN = 78;
my $DO_NOT_HANG = 1;
$SIG{__DIE__} = sub { print STDERR @_; exit $CAN_NOT_BEGIN };

my ($batch) = @ARGV;
my $index = $ENV{SLURM_ARRAY_TASK_ID} // 0;
my $dir = readlink("$batch/$index") // die "stoker: $batch/$index: $!\n";
my $id = defined $ENV{SLURM_ARRAY_JOB_ID} ? "$ENV{SLURM_ARRAY_JOB_ID}_$index" : $ENV{SLURM_JOB_ID};
my $node = $ENV{SLURMD_NODENAME} // $ENV{SLURM_NODELIST} // '-';

my %order = read_order("$dir/order");
for my $required (@{ $order{requires} }) {
    # An id of Slurm's may be another job's by now; how the other one ended is on disk.
    next if (read_line("$required/exit") // '') eq 'exited 0';
    put_down('refused', "requirement $required\n");
    exit $GIVES_WAY;
}

my $gpus = $ENV{CUDA_VISIBLE_DEVICES} // '';
exit $GIVES_WAY unless claim(join(' ', $node, $$, $id, $ENV{SLURM_RESTART_COUNT} // 0,
    $gpus eq '' ? '-' : $gpus));

pipe(my $from_child, my $to_parent) or die "stoker: $!\n";
my $child = 0;
my $told = 0;
$SIG{TERM} = \&told_to_stop;
$SIG{ALRM} = sub { kill 'KILL', members() };
$SIG{CHLD} = sub { };
$SIG{ $order{warning} } = \&warned if $order{warning};
$child = fork // die "stoker: $!\n";
run_command() if !$child;
close $to_parent;
my $trouble = do { local $/; <$from_child> } // '';

# A signal that comes just before a wait would be dealt with only when that wait is over, so no wait is
# longer than a second. The end of the child cuts it short.
select undef, undef, undef, 1 until waitpid($child, $DO_NOT_HANG);
my ($signal, $code) = ($? & 127, $? >> 8);
if ($trouble ne '') {
    put_down('refused', "start $trouble\n");
    exit 127;
}
put_down('exit', $signal ? "signalled $signal\n" : "exited $code\n");
exit $code unless $signal;
if (grep { $_ == $signal } 1, 2, 9, 10, 12, 13, 14, 15) {
    # The cluster is to see the same end; those that leave a core behind did so once.
    $SIG{ (qw(- HUP INT - - - - - - - USR1 - USR2 PIPE ALRM TERM))[$signal] } = 'DEFAULT' if $signal != 9;
    kill $signal, $$;
    sleep 1;
}
exit 128 + $signal;

sub run_command {
    $SIG{$_} = 'DEFAULT' for grep { ref $SIG{$_} } keys %SIG;
    # What came before this moment has met a handler of ours, and not the command.
    kill 'TERM', $$ if $told;
    close $from_child;
    my %slurm = map { $_ => $ENV{$_} } grep {
        /^SLURM|^CUDA_MPS_|^(CUDA|ROCR|HIP)_VISIBLE_DEVICES$|^GPU_DEVICE_ORDINAL$|^ZE_AFFINITY_MASK$|^TMPDIR$/
    } keys %ENV;
    %ENV = (%{ $order{env} }, CUDA_VISIBLE_DEVICES => '', %slurm, STOKER_GPUS => $gpus);
    my @words = @{ $order{words} };
    if ($order{gpu_arg} && $gpus ne '') {
        my @more = ('--gpu', split /,/, $gpus);
        if ($order{shell}) { $words[-1] = join ' ', $words[-1], @more }
        else               { push @words, @more }
    }
    my $mode = $order{append} ? '>>' : '>';
    umask $order{umask} if $order{umask} ne '';
    chdir $order{cwd} or give_up("$order{cwd}: $!");
    if ($order{out} ne '') {
        open STDOUT, $mode, $order{out} or give_up("$order{out}: $!");
        open STDERR, '>&', \*STDOUT or give_up("$order{out}: $!");
    }
    if ($order{err} ne '') {
        open STDERR, $mode, $order{err} or give_up("$order{err}: $!");
    }
    exec { $words[0] } @words or give_up("$words[0]: $!");
}

sub give_up {
    my ($why) = @_;
    syswrite $to_parent, $why;
    exit 127;
}

# The cluster wants it to end, and has told all its processes so.
sub told_to_stop {
    if (($order{warning} // '') eq 'TERM') {
        $order{warning} = '';
        return warned('TERM');
    }
    $told = 1;
    put_down('told', "$id\n");
    alarm($order{grace} || 1);
}

# The signal before the time limit comes to us alone. A shell or a data loader without a handler
# would die of it; those that are prepared for it may be anywhere in the tree. What they have forked
# has inherited the handler, and is spared: one checkpoint is enough.
sub warned {
    my ($name) = @_;
    my %number = (HUP => 1, INT => 2, QUIT => 3, USR1 => 10, USR2 => 12, ALRM => 14, TERM => 15,
                  CONT => 18, TSTP => 20, URG => 23, XCPU => 24, WINCH => 28);
    my $bit = 1 << (($number{$name} // 10) - 1);
    my %prepared = map { $_ => 1 } grep {
        my ($caught) = (read_all("/proc/$_/status") // '') =~ /^SigCgt:\s*[0-9a-f]*([0-9a-f]{8})$/m;
        hex($caught // 0) & $bit;
    } members();
    my @topmost = grep {
        my $at = parent_of($_);
        $at = parent_of($at) while $at && !$prepared{$at};
        !$at;
    } keys %prepared;
    kill $name, @topmost ? @topmost : $child;
}

sub parent_of { return (read_all("/proc/$_[0]/stat") // '') =~ /^.*\) \S (\d+)/s ? $1 : 0 }

# All processes of the attempt: descendants of the command, and all that bear its mark.
sub members {
    my %parent;
    opendir my $proc, '/proc' or return $child;
    $parent{$_} = parent_of($_) for grep { /^\d+$/ } readdir $proc;
    my $mark = "STOKER_ATTEMPT_ID=$order{env}{STOKER_ATTEMPT_ID}";
    return grep {
        my $at = $_;
        $at = $parent{$at} while $at && $at != $child;
        my $own = $at || $_ == $$ ? '' : "\0" . (read_all("/proc/$_/environ") // '');
        $_ != $$ && ($at || $own =~ /\0\Q$mark\E\0/);
    } keys %parent;
}

# True if this start is the first one: a link is made by one of any number, on any file system.
sub claim {
    my ($text) = @_;
    my $own = "$dir/start.$node.$$";
    write_all($own, "$text\n") or die "stoker: $own: $!\n";
    my $first = link($own, "$dir/start") || (stat $own)[3] > 1;
    unlink $own;
    return $first;
}

sub put_down {
    my ($name, $text) = @_;
    my $own = "$dir/$name.$node.$$";
    for (1 .. 60) {
        return if write_all($own, $text) && rename $own, "$dir/$name";
        sleep 1;    # A full disk may have room again.
    }
}

sub write_all {
    my ($path, $text) = @_;
    open my $file, '>', $path or return 0;
    print {$file} $text;
    return close $file;
}

sub read_all {
    my ($path) = @_;
    open my $file, '<', $path or return undef;
    local $/;
    return scalar <$file>;
}

sub read_line {
    my $text = read_all(@_) // return undef;
    chomp $text;
    return $text;
}

# The fields are in a fixed order, each ended by a NUL, which nothing in them can have.
sub read_order {
    my ($path) = @_;
    my @fields = split /\0/, read_all($path) // die("stoker: $path: $!\n"), -1;
    pop @fields;
    my %read;
    $read{$_} = shift @fields for qw(cwd out err append gpu_arg shell grace warning umask);
    $read{requires} = [ splice @fields, 0, shift @fields ];
    $read{words} = [ splice @fields, 0, shift @fields ];
    $read{env} = { map { /^(.*?)=(.*)$/s } @fields };
    return %read;
}
