! SPDX-License-Identifier: BSD-3-Clause
! The same calls by each of MPI's Fortran interfaces, all of which the preload library must see: two reductions (one in
! place), a barrier, and nonblocking forms, which different functions complete. The file includes itself for each
! interface (-cpp).
#ifndef NAME
#define NAME old
#define REQUEST integer
#include "interfaces.f90"
#undef NAME
#define NAME module90
#define MODULE mpi
#include "interfaces.f90"
#undef NAME
#undef MODULE
#undef REQUEST
#define NAME module08
#define MODULE mpi_f08
#define REQUEST type(MPI_Request)
#include "interfaces.f90"

program interfaces
   use mpi_f08
   implicit none
   integer :: rank

   call MPI_Init()
   call MPI_Comm_rank(MPI_COMM_WORLD, rank)
   call old()
   call module90()
   call module08()
   if (rank == 0) print '(a)', 'good'
   call MPI_Finalize()
end program
#else
subroutine NAME()
#ifdef MODULE
   use MODULE
#endif
   implicit none
#ifndef MODULE
   include 'mpif.h'
#endif
   integer :: error, ranks, one, total, which
   REQUEST :: requests(2)
   logical :: done

   call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
   one = 1
   call MPI_Allreduce(MPI_IN_PLACE, one, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
   if (one /= ranks) call MPI_Abort(MPI_COMM_WORLD, 1, error)
   call MPI_Barrier(MPI_COMM_WORLD, error)
   call MPI_Iallreduce(one, total, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(1), error)
   done = .false.
   do while (.not. done)
      call MPI_Test(requests(1), done, MPI_STATUS_IGNORE, error)
   end do
   if (total /= ranks) call MPI_Abort(MPI_COMM_WORLD, 2, error)
   call MPI_Iallreduce(one, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, requests(1), error)
   call MPI_Ibarrier(MPI_COMM_WORLD, requests(2), error)
   ! Without a look at `which`: MPICH 4.0 counts from 0 in mpi_f08.
   call MPI_Waitany(2, requests, which, MPI_STATUS_IGNORE, error)
   call MPI_Waitany(2, requests, which, MPI_STATUS_IGNORE, error)
   if (total /= ranks * ranks) call MPI_Abort(MPI_COMM_WORLD, 3, error)
   call MPI_Iallreduce(one, total, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, requests(1), error)
   call MPI_Ibarrier(MPI_COMM_WORLD, requests(2), error)
   call MPI_Wait(requests(1), MPI_STATUS_IGNORE, error)
   call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, error)
   if (total /= ranks) call MPI_Abort(MPI_COMM_WORLD, 4, error)
end subroutine
#endif
